"""Store: engines for the ledger and for blobs. Engines do not interpret the content."""
