"""Fixtures of the tests of consensus training."""

from __future__ import annotations

import pytest

from adaptermill.example.architecture import build
from adaptermill.example.arithmetic import draw_rollouts
from adaptermill.models.base import resolve
from tests.training.consensus.agents import TINY, Agents


@pytest.fixture(scope="session")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Agents:
    """On a random tiny base that knows the words of the example's rollouts."""
    folder = tmp_path_factory.mktemp("agents")
    lines = list(draw_rollouts(0, 20, 2))
    texts = [m["output"] for line in lines for m in line["messages_by_agent"]]
    texts += [m["content"] for line in lines for m in line["messages_by_agent"][3]["prompt"]]
    build(folder / "base", texts, TINY, 0)
    ref = resolve("tiny", None, str(folder / "base"), folder / "hashes.parquet")
    return Agents(folder, ref)
