"""Fixtures of the training tests."""

from __future__ import annotations

import pytest

from tests.tiny_base import make_tiny_base
from tests.training.world import World, make_sources


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("training")
    return World(folder, make_tiny_base(folder / "base"), make_sources(folder))
