"""Benchmarks of the MCP door."""
