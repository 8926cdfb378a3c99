"""The public conformance suite of MCP against our server, with the fixtures that it asks for."""
