"""Fixtures for tests of fit sets."""

from tests.browser import browser

__all__ = ["browser"]
