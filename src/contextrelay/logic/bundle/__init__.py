"""Prompt bundles: what a model is sent about a thread, and what that costs."""
