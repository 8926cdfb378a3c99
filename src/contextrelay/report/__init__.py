"""Reports: a thread made into something to read."""
