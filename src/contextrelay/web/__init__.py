"""The page: what agents share, for people to see, in a browser."""
