"""The commands, one module per noun; a module is imported when one of its commands is run."""
