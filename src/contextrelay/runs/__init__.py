"""Runs: a model answers on a thread, with tools to look into refs and to change the state."""
