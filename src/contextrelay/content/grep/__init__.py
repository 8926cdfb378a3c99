"""Grep: lines that match, and how matches are shown."""
