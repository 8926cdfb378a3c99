"""Thread state: its schema, header, compaction and event chain."""
