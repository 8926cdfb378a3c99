"""The MCP door: models ask the relay by tools, and read artifacts and headers as resources."""
