"""Providers: one module each, behind the protocol in runs/provider.py."""
