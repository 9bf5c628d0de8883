"""Replay rows as examples: the recorded answer is judged under the prompt that it answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from adaptermill.judges.judge import Example
from adaptermill.rows.dataset import Images, Rows
from adaptermill.rows.schema import Row


def row_examples(
    index: pd.DataFrame, rows: Rows, images: Images, actions: Mapping[str, Sequence[str]]
) -> Iterator[Example]:
    """An example per line of `index` (the row index of scripts/split.py), in its order.

    `actions` are the names of actions that a source knows. Of a record's other fields, `reward` (a
    number), `gold` and `answer_type` are taken where they are there.
    """
    for line in index[["row_id", "success"]].itertuples(index=False):
        row = rows.get(line.row_id)
        yield _example(row, line.success, images, tuple(actions[row.source]))


def _example(row: Row, success: Any, images: Images, actions: tuple[str, ...]) -> Example:
    record = row.record
    return Example(
        row_id=row.row_id,
        content_hash=row.content_hash,
        messages=row.messages,
        output=row.target,
        gold=text(record.get("gold")),
        answer_type=text(record.get("answer_type")),
        reward=number(record.get("reward")),
        # A column with gaps reads as objects or as floats.
        success=None if pd.isna(success) else bool(success),
        screen=images.size(row.images[-1]) if row.images else None,
        actions=actions,
        images=row.images,
    )


def number(value: Any) -> float | None:
    """A number as it was recorded, else None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def text(value: Any) -> str | None:
    """A text as it was recorded, also where it is a number, else None."""
    if isinstance(value, str):
        return value
    return f"{value:g}" if number(value) is not None else None


def known_actions(
    index: pd.DataFrame, schemas: Mapping[str, Sequence[str] | None]
) -> dict[str, list[str]]:
    """Source -> names of its actions: those of its schema, or else those its rows have as `op`."""
    seen = index.groupby("source")["op"].unique()
    return {
        source: sorted(schemas.get(source) or ops)
        for source, ops in zip(seen.index, seen, strict=True)
    }
