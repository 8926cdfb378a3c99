"""Slicing: bounded pieces of a body, one module per selector."""
