"""Exact caps: at most so many examples with one key, the best of them kept."""

from __future__ import annotations

import pandas as pd

from adaptermill.trajectories.thinking import after

# What the key is made of beside the target's text.
_PROMPT_COLUMNS = {
    "target": [],
    "prompt+target": ["text_hash"],
    "prompt+target+images": ["prompt_hash"],
}


def keys(examples: pd.DataFrame, key: str) -> pd.Series:
    """The key of every example: its target's text after `</think>`, stripped, with the prompt."""
    texts = examples["target"].map(after).astype(object)
    parts = [examples[column].astype(object) + "\0" for column in _PROMPT_COLUMNS[key]]
    return sum(parts, start=pd.Series("", examples.index, dtype=object)) + texts


def over_cap(examples: pd.DataFrame, settings: dict[str, object], within: list[str]) -> pd.Series:
    """The row that stands for each example that is over the cap; null for those that are kept.

    Per value of the columns `within`, at most `cap` examples share a key: those with the highest
    `advantage` (null is lowest), of equal ones the first. The row named is the best of its key.
    """
    columns = [*within, "_key"]
    keyed = examples.assign(_key=keys(examples, str(settings["key"])))
    ordered = keyed.sort_values("advantage", ascending=False, kind="stable", na_position="last")
    groups = ordered.groupby(columns, sort=False, dropna=False)
    best = groups["row_id"].transform("first").astype(object)
    return best.where(groups.cumcount() >= settings["cap"], None).reindex(examples.index)
