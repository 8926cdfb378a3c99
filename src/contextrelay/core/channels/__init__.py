"""Channels: signals in order, and how long they are kept."""
