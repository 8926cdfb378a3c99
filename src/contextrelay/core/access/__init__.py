"""Access: callers and keys, what each may see, and how much each may use."""
