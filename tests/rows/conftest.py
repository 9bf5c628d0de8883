"""Tests of ingestion write thousands of small files; none of them has to survive a power cut."""

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def _no_flushing_to_disk():
    patch = pytest.MonkeyPatch()
    patch.setattr(os, "fsync", lambda handle: None)
    yield
    patch.undo()
