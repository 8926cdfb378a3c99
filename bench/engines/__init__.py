"""Engines measured: verbs against raw clients, servers over one engine, object stores, moving."""
