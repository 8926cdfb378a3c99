"""Artifacts: pushed, pulled, described, listed, held and removed."""
