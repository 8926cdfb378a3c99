"""Transports: verbs answered in this process, or sent over HTTP."""
