"""A2A: agents served to others, and messages to remote agents."""
