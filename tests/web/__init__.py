"""The page: what a browser is given, and what it sends."""
