"""Thread state: schema, header, compaction and event chain."""
