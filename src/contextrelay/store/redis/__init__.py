"""Redis and Valkey: connections, hints and indexes."""
