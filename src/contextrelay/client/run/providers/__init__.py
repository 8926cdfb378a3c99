"""Providers: one file each, behind the protocol in client/run/provider.py."""
