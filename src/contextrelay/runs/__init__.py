"""Runs: a model answers on a thread, with tools to read refs and to change the state."""
