"""Content: the type, description, preview and digest of a body."""
