"""Streams: WebSockets, server-sent events and long polls."""
