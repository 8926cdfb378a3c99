"""Replays: the runs of a thread done again in a copy, by the record or by another model."""
