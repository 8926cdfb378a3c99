"""The bridge: tasks for another agent over a channel."""
