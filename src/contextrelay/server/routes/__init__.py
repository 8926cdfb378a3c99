"""HTTP routes: /v1, and the paths of the seeds."""
