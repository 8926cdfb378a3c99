"""Runs: answers of models and commands, stored with what they changed."""
