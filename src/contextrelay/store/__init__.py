"""Store: keeping. Engines for the ledger and for blobs; they know nothing of what they keep."""
