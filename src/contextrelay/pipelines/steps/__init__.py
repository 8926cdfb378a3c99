"""Steps: the kinds of steps, their values, their processes and their results."""
