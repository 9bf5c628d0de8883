"""The columns and counts of a fit set of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from adaptermill.fitsets.composition import composition
from adaptermill.fitsets.labels import LABELS
from adaptermill.fitsets.plan import Line


def message_columns(kept: pd.DataFrame) -> pd.DataFrame:
    """The kept lines with every column of a fit set; those of pairs alone are null elsewhere."""
    absent = {name: None for name in ("pair_id", *LABELS) if name not in kept}
    return kept.assign(**absent)


def message_composition(
    settings: Mapping[str, Any],
    rows: int,
    fitset: pd.DataFrame,
    dropped: pd.DataFrame,
    plan: Sequence[Line],
    found: Mapping[str, Any],
) -> dict[str, Any]:
    """Counts that add up to the input, with those of seats, queries, rewards, pairs, prescreen.

    `rewards` is kind -> reward -> lines. The plan of pairs is left to who trains on them.
    """
    recipe = settings["recipe"]
    made = composition(settings["adapter"], rows, fitset, dropped, plan, recipe["batch_rows"])
    hashes = made.pop("hashes")
    rewards = fitset["reward"].map(lambda reward: "none" if pd.isna(reward) else f"{reward:g}")
    return {
        **made,
        "examples": recipe["trajectories"]["examples"],
        "tau": recipe["trajectories"]["tau"],
        "queries": int(fitset["query_id"].nunique()),
        "by_seat": _by_kind(fitset, fitset["seat"].astype(str)),
        "rewards": _by_kind(fitset, rewards),
        **found,
        "hashes": hashes,
    }


def _by_kind(fitset: pd.DataFrame, values: pd.Series) -> dict[str, dict[str, int]]:
    counts = values.groupby([fitset["kind"], values]).size()
    table: dict[str, dict[str, int]] = {}
    for (kind, value), count in counts.items():
        table.setdefault(str(kind), {})[str(value)] = int(count)
    return table
