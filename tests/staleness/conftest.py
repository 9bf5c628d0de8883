"""One built mill for all tests: each leaves it fresh, or hands on what the next one needs."""

import pytest

from tests.staleness.mill import Mill


@pytest.fixture(scope="session")
def mill(tmp_path_factory) -> Mill:
    """Six adapters and their evaluations, built."""
    made = Mill.make(tmp_path_factory.mktemp("mill"))
    run = made.build()
    assert (run.jobs["train"], run.jobs["evaluate"]) == (6, 7), run
    return made
