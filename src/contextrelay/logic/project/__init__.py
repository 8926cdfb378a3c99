"""Project files: what they say and how they change, as pure functions on text and values."""
