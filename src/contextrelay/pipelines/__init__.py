"""Pipelines: graphs of steps. The result of a step is an artifact, and the end of a step is an
event.
"""
