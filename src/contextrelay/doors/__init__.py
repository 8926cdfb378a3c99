"""Doors: ways in. Each parses, asks one verb, shows the answer."""
