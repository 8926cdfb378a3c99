"""Asking other agents by A2A: their cards, messages to them, and what they answer."""
