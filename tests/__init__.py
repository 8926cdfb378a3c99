"""Tests: promises.py says what is promised, the folders mirror src/contextrelay."""
