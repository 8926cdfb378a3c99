"""Diffs of texts, line by line."""
