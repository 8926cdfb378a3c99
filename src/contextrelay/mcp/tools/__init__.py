"""The MCP tools, by subject, and the toolsets that are offered to models."""
