"""Capabilities: registered, invoked, cached."""
