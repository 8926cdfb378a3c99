"""Content: its type, description, preview and digest."""
