"""Traces: what runs did, read out of a thread's events."""
