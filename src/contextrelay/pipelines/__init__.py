"""Pipelines: a graph of steps; each result is an artifact, and the end of each step an event."""
