"""HTTP routes: /v1, and the seeds' own paths."""
