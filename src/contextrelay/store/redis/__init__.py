"""The Redis and Valkey engine: the ledger, its blobs, and the client that they share."""
