"""The PostgreSQL engine: the ledger, its blobs, and the client that they share."""
