"""Fuzzing: bodies that nobody would write, found by what of the code they reach."""
