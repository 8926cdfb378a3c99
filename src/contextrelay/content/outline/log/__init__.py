"""Outlines of logs and tool output: the format of their lines, and the errors they report."""
