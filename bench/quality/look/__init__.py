"""Looks: what an outline, one grep and one search answer about files that others wrote."""
