"""The HTTP server: connections, requests, bodies, auth."""
