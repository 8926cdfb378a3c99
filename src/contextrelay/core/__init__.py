"""Core: doing. One file a noun; every verb has one function, and `answer` is the only way in."""
