"""Runs: a model works on a thread, with tools that read refs and change the state."""
