"""Outlines of source code."""
