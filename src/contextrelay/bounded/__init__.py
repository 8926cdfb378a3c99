"""Bounded: untrusted content, read within limits of time and memory: bodies, URLs and zips."""
