"""Screens: each asks a few verbs and says which template shows their answers."""
