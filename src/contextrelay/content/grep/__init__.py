"""Grep: find matching lines and records, and show them."""
