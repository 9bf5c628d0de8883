"""Which queries are worth rolling out: a few short rollouts of each, judged by their outcome.

`prescreen` drops queries right in both of two rollouts; `pass_band` keeps those whose share of
right ones lies strictly inside. Both look with the same rules as for recorded rollouts
(trajectories/queries.py), at rollouts with numbers of their own seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from adaptermill.fitsets.plan import rank
from adaptermill.rollouts.queries import Query
from adaptermill.trajectories.queries import outside_band, prescreen

# (queries, how many rollouts of each) -> trajectories; short ones, kept in a journal of their own.
Roll = Callable[[Sequence[Query], int], Iterator[dict[str, Any]]]
_PRESCREEN_ROLLOUTS = 2
TAU = 1.0


def table(trajectories: Iterator[dict[str, Any]]) -> pd.DataFrame:
    """A line per rollout that has a reward, as trajectories/queries.py takes them."""
    columns = ["query_id", "rollout_id", "rollout", "seed", "reward"]
    lines = [
        [t["query_id"], f"{t['query_id']}/{t['rollout']}", t["rollout"], t["seed"], t["reward"]]
        for t in trajectories
        if t.get("reward") is not None
    ]
    return pd.DataFrame(lines, columns=columns).astype({"reward": "float64"})


def prescreened(
    queries: Sequence[Query], pool: int, n: int, seed: int, roll: Roll
) -> tuple[list[Query], dict[str, Any], dict[str, str]]:
    """The queries taken in their order, counts, and the reason of each that is not.

    Rolls out the pool alone: the first `pool` queries in an order that `seed` draws.
    """
    order = sorted(queries, key=lambda query: rank("prescreen", seed, query.query_id))
    found = table(roll(order[:pool], _PRESCREEN_ROLLOUTS))
    screened = prescreen(found, {"pool": pool, "n": n}, TAU, seed)
    out = dict(screened.out)
    out |= {query.query_id: "outside_pool" for query in order[pool:]}
    judged = set(found["query_id"])
    out |= {q.query_id: "no_reward" for q in order[:pool] if q.query_id not in judged}
    kept = [query for query in queries if query.query_id not in out]
    return kept, screened.counts(), out


def in_band(
    queries: Sequence[Query], band: Sequence[float], rollouts: int, roll: Roll
) -> tuple[list[Query], dict[str, Any], dict[str, str]]:
    """The queries whose pass rate lies strictly inside the band, and that have a reward."""
    found = table(roll(queries, rollouts))
    out = outside_band(found, band, TAU)
    judged = set(found["query_id"])
    out |= {query.query_id: "no_reward" for query in queries if query.query_id not in judged}
    kept = [query for query in queries if query.query_id not in out]
    low, high = band
    rates = found.assign(right=found["reward"] >= TAU).groupby("query_id")["right"].mean()
    counts = {
        "looked_at": len(queries),
        "kept": len(kept),
        "too_hard": int((rates <= low).sum()),
        "too_easy": int((rates >= high).sum()),
        "no_reward": len(queries) - len(judged),
    }
    return kept, counts, out
