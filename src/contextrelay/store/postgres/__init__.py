"""The PostgreSQL engine: the ledger, its blobs, and what both stand on."""
