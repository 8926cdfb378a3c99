"""Access: permissions, rate limits, public addresses."""
