"""Benchmarks: each against what a user would use instead, in one run, as a ratio."""
