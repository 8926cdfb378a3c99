"""Accounting: what readers used, and what refs saved."""
