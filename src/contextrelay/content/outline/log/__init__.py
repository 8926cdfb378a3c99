"""Logs and outputs of tools: what their lines share, and what they report."""
