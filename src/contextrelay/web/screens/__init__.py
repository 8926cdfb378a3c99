"""Screens: each one runs a few verbs and names the template for their results."""
