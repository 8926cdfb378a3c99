"""Wire: verbs as values, and how they are spelled. No I/O, no clock, no dice."""
