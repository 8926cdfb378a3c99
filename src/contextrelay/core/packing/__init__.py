"""Packing a window under a token budget, and handing it to another agent."""
