"""A2A: serve agents to others, and send messages to remote agents."""
