"""Search: ranked passages, and the index that is kept up to the ledger."""
