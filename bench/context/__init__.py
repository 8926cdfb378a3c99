"""Benchmarks that users can run: `relay bench`."""
