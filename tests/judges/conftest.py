"""The server that judges are tested against; it is started once."""

from __future__ import annotations

import pytest

from tests.judges.serving import served


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """Base URL and model name of a real small model behind a real server."""
    with served(tmp_path_factory.mktemp("served")) as found:
        yield found
