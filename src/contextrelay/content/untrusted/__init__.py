"""Untrusted text: defuse it, fence it and render it for a model."""
