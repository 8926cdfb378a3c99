"""Providers: one file each, behind the protocol in runs/provider.py."""
