"""Subscriptions to channels."""
