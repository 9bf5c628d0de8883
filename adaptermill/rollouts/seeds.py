"""Seeds: a number for every (query, rollout, agent), whatever else is rolled out beside it."""

from __future__ import annotations

import numpy as np

from adaptermill.fitsets.plan import rank


def rollout_seed(seed: int, query_id: str, rollout: int) -> int:
    """The seed of one rollout, from 0 to 2**31 - 1; it is written into the trajectory."""
    return _number("rollout", seed, query_id, rollout)


def agent_seed(of_rollout: int, agent: int) -> int:
    """The seed of one agent's message in a rollout, from 0 to 2**31 - 1."""
    return _number("agent", of_rollout, agent)


def screening_seed(seed: int) -> int:
    """The seed of the short rollouts that choose queries, so that none is drawn twice."""
    return _number("screening", seed)


def uniforms(seed: int, count: int) -> np.ndarray:
    """float64 [count]: the draws in [0, 1) of one message, number t for its token t."""
    return np.random.Generator(np.random.Philox(seed)).random(count)


def _number(*parts: object) -> int:
    return int.from_bytes(rank(*parts)[:4], "little") >> 1
