"""Store: engines for the ledger and for blobs. They do not interpret the content."""
