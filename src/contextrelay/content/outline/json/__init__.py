"""Outlines of JSON documents, JSON lines and notebooks."""
