"""Runs: their results, their traces, and what came of doing them again."""
