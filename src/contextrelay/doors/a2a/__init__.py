"""A2A 1.0: agents on this relay, served to other agents; a task is a thread of kind `task`."""
