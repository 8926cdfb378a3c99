"""Model: what things are. Frozen values; no I/O, no clock, no dice."""
