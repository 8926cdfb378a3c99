"""Commands: one file a noun; imported when called."""
