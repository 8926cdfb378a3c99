"""Packing: relevance, candidates and selection within a budget."""
