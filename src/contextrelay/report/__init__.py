"""Reports: threads in human-readable form."""
