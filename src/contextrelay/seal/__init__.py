"""Seals: chunked encryption, keys, and checks by a server without a key."""
