"""The PostgreSQL engine: the ledger, its blobs, and their shared client."""
