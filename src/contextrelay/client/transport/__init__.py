"""Transports: verbs answered in this process, or asked over HTTP."""
