"""Fixtures of the training tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.tiny_base import make_tiny_base
from tests.training.world import World, make_sources


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("training")
    return World(folder, make_tiny_base(folder / "base"), make_sources(folder))


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """A trainer in this process takes over SIGTERM and SIGINT; they are given back."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
