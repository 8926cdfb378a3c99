"""Logic: what is computed. Pure functions; no I/O, no clock, no dice."""
