"""Threads: made, read, patched, forked and mirrored to files."""
