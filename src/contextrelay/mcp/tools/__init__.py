"""The tools of MCP, by what they work on, and which of them a model is offered."""
