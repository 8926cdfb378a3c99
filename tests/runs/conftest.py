"""Fixtures that run a test blocking and awaited, on engines and over HTTP."""

from tests.legs import leg, pytest_generate_tests, relay

__all__ = ["leg", "pytest_generate_tests", "relay"]
