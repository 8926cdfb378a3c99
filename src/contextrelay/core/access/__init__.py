"""Access: who asks, what they may see, and how much they may use."""
