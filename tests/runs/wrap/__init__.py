"""Commands that are run under our eyes."""
