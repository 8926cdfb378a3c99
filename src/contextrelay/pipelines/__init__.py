"""Pipelines run: steps as a graph, each result an artifact, every end of a step an event."""
