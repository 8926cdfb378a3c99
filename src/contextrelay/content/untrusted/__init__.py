"""Untrusted text: defused, fenced and rendered for a model."""
