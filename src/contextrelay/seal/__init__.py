"""Seals: chunked encryption, keys, and what a server can check."""
