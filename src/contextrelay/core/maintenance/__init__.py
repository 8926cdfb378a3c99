"""Maintenance: sweep, verify, survey."""
