"""Which queries are trained on: windows, the pass band, and the prescreen.

All three answer with the queries that fall out and why; nothing depends on the order of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from adaptermill.fitsets.plan import rank
from adaptermill.splits import u

# The window's name -> why its queries are not trained on.
_REASONS = {"heldout": "heldout_window", "evaluation": "evaluation_window"}
_SCREENING_ROLLOUTS = 2


def place(query_id: str, seed: int) -> float:
    """The query's place in [0, 1]: windows are intervals of it."""
    return u(f"window:{seed}:{query_id}")


def inside(value: float, interval: Sequence[float]) -> bool:
    """Whether low <= value < high; an interval that ends at 1 holds 1 too."""
    low, high = interval
    return low <= value and (value < high or high >= 1)


def outside_windows(query_ids: Iterable[str], windows: Mapping[str, Any]) -> dict[str, str]:
    """Query -> reason, of the queries that are not for training.

    Inside the training window, the `n` lowest hashes are taken, so more data moves nothing.
    """
    places = {query_id: place(query_id, windows["seed"]) for query_id in set(query_ids)}
    found = {}
    for query_id, value in places.items():
        if inside(value, windows["train"]):
            continue
        others = [n for n in _REASONS if windows[n] is not None and inside(value, windows[n])]
        found[query_id] = _REASONS[others[0]] if others else "outside_windows"
    training = sorted((value, name) for name, value in places.items() if name not in found)
    if windows["n"] is not None:
        found |= {name: "beyond_n" for _, name in training[windows["n"] :]}
    return found


def rollouts_of(messages: pd.DataFrame) -> pd.DataFrame:
    """A line per rollout that has a reward: query_id, rollout_id, rollout, seed, reward."""
    rollouts = messages.drop_duplicates("rollout_id")
    columns = ["query_id", "rollout_id", "rollout", "seed", "reward"]
    return rollouts.loc[rollouts["reward"].notna(), columns]


def outside_band(rollouts: pd.DataFrame, band: Sequence[float], tau: float) -> dict[str, str]:
    """Query -> its pass rate in words, where that does not lie strictly inside the band."""
    rates = (rollouts["reward"] >= tau).groupby(rollouts["query_id"]).mean()
    low, high = band
    return {
        str(query_id): f"pass rate {rate:.3g}, pass_band is [{low:g}, {high:g}]"
        for query_id, rate in rates.items()
        if not low < rate < high
    }


@dataclass
class Screened:
    """What the prescreen says. `out` maps queries to the reason why they are left out."""

    candidates: int
    right_both_times: int
    taken: int
    filled: int
    out: dict[str, str] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        names = ("candidates", "right_both_times", "taken", "filled")
        return {name: getattr(self, name) for name in names}


def prescreen(
    rollouts: pd.DataFrame, settings: Mapping[str, int], tau: float, seed: int
) -> Screened:
    """Takes `n` of a pool of candidate queries, those first that two rollouts do not find easy.

    The pool is the first `pool` queries in an order drawn by `seed`. Of each, two recorded rollouts
    are drawn; queries right both times are dropped, and the first `n` others taken. Are they too
    few, dropped ones fill up. A query with one rollout alone is never right both times.
    """
    by_query: dict[str, list[tuple[bytes, str, bool]]] = {}
    for query_id, rollout_id, rollout, own_seed, reward in rollouts.itertuples(index=False):
        drawn = rank("prescreen rollout", seed, query_id, rollout, own_seed)
        by_query.setdefault(query_id, []).append((drawn, rollout_id, bool(reward >= tau)))
    order = sorted(by_query, key=lambda query_id: rank("prescreen", seed, query_id))
    pool = order[: settings["pool"]]
    easy = []
    for query_id in pool:
        looked_at = sorted(by_query[query_id])[:_SCREENING_ROLLOUTS]
        if len(looked_at) == _SCREENING_ROLLOUTS and all(right for *_, right in looked_at):
            easy.append(query_id)
    hard = [query_id for query_id in pool if query_id not in set(easy)]
    taken = hard[: settings["n"]]
    fill = easy[: settings["n"] - len(taken)]
    kept = {*taken, *fill}
    out = dict.fromkeys(order[settings["pool"] :], "outside_pool")
    out |= {query_id: "right_both_times" for query_id in easy if query_id not in kept}
    out |= {query_id: "beyond_n" for query_id in hard if query_id not in kept}
    return Screened(len(pool), len(easy), len(kept), len(fill), out)
