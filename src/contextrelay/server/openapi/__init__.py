"""OpenAPI 3.1 of the HTTP API, and its page."""
