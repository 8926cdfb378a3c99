"""Seed 002's routes: threads, states, artifacts, capabilities, reports."""
