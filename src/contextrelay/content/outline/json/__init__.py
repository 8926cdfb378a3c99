"""JSON documents, lines of them, and notebooks: their shape."""
