"""Seals on the client's side: push, pull and inspection."""
