"""Artifacts: pushed, pulled, described, listed, kept and removed."""
