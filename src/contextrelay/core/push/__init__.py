"""Push: bodies are stored, artifacts made of them, and put into threads."""
