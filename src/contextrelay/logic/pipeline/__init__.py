"""Pipelines: their language, checked, and what is to be done next; nothing here runs anything."""
