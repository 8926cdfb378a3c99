"""Screens: each runs a few verbs and names the template for their results."""
