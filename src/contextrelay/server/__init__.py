"""The HTTP server: access to a store from other machines and languages."""
