"""Packing: relevance, candidates and the choice under a budget."""
