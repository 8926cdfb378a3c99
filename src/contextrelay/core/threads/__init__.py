"""Threads: created, read, patched, forked and mirrored to files."""
