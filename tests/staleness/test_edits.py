"""A few random edits of data, configuration and code (tests/staleness/edits.py runs many)."""

import pytest

from tests.staleness.edits import run_edits

pytestmark = pytest.mark.slow


def test_random_edits_leave_nothing_stale(tmp_path):
    run_edits(tmp_path, seed=1, edits=4, builds=1, until=float("inf"))
