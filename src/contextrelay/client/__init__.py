"""Clients: the same verbs, local or over HTTP, blocking or awaited."""
