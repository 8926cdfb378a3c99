"""The web page: threads, artifacts, channels and runs in a browser."""
