"""The HTTP server, measured from outside: real processes, asked by wrk and by clients."""
