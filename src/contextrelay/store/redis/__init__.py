"""The Redis and Valkey engine: the ledger, its blobs, and their shared client."""
