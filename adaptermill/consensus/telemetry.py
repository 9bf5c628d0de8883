"""What a run's rounds say when they are looked at together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

# Rounds in a row over which x and z must drift apart, and by how much, to be a warning.
GROWING_ROUNDS = 5
GROWING_FACTOR = 1.5


def growing(rounds: Sequence[Mapping[str, Any]]) -> bool:
    """Whether max ||x_i - z_i|| has grown over the last rounds, each beyond the one before.

    Gossip with a penalty far below the objectives' curvature can drift apart instead of together.
    The first round, which leaves the common start, does not count.
    """
    if len(rounds) <= GROWING_ROUNDS or "distance" not in rounds[-1]:
        return False
    last = [max(told["distance"]) for told in rounds[-GROWING_ROUNDS:]]
    rising = all(before < after for before, after in pairwise(last))
    return rising and last[-1] > GROWING_FACTOR * last[0]


def first_growing(rounds: Sequence[Mapping[str, Any]]) -> int | None:
    """The number of the first round at which the residuals were growing; None for none."""
    for end in range(GROWING_ROUNDS + 1, len(rounds) + 1):
        if growing(rounds[:end]):
            return rounds[end - 1]["round"]
    return None


def warnings(rounds: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a reader must know of the rounds, in full sentences."""
    at = first_growing(rounds)
    if at is None:
        return []
    return [
        f"From round {at - GROWING_ROUNDS + 1} to {at} the nodes' x and z drifted apart, each "
        "round further: the run diverges. Raise rho or gossip_steps, or take an exact consensus."
    ]
