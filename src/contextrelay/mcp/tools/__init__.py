"""The MCP tools, one module per subject, and the toolsets that are offered to models."""
