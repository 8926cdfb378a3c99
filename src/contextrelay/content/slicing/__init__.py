"""Slicing: bounded pieces of a body, one file a way."""
