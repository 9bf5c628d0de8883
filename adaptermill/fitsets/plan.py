"""The plan: what is trained on, in what order, for all epochs, written before training starts.

    plan = make_plan(ce, pool, seed=0, epochs=3, anchor_ratio=0.5, batch_rows=8)

`ce` and `pool` map row ids to the hash of what the row says. Orders are sorts by the SHA-256 of
(seed, epoch, that hash), not a generator's draws: the plan is the same on any machine and in any
version, a row more or less moves no other one, and what a row is called does not matter.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

PLAN_SCHEMA = pa.schema(
    [
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("row_id", pa.string(), nullable=False),
        # ce (cross-entropy) or anchor
        pa.field("kind", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Line:
    """One line of the plan; `position` counts over all epochs."""

    epoch: int
    position: int
    row_id: str
    kind: str


def half_up(value: float) -> int:
    """Rounds to the nearest whole number, halves upwards."""
    return math.floor(value + 0.5)


def rank(*parts: object) -> bytes:
    """A fixed pseudo-random rank of the parts."""
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8")).digest()


# What stands for a row in ranks: the hash of its content, and which copy of that content it is.
Name = tuple[str, int]


def names_of(rows: Mapping[str, str]) -> dict[str, Name]:
    """Row id -> name, of rows given as row id -> content hash."""
    seen: Counter[str] = Counter()
    names = {}
    for row_id, content in rows.items():
        names[row_id] = (content, seen[content])
        seen[content] += 1
    return names


def draw(names: Mapping[str, Name], count: int, *seed: object) -> list[str]:
    """The row ids that come first, `count` of them, in the order that the seed gives."""
    return sorted(names, key=lambda row_id: rank(*seed, *names[row_id]))[:count]


def make_plan(
    ce: Mapping[str, str],
    pool: Mapping[str, str],
    *,
    seed: int,
    epochs: float,
    anchor_ratio: float,
    batch_rows: int,
    max_steps: int | None = None,
) -> list[Line]:
    """The plan over cross-entropy rows `ce` and anchor pool `pool` (row id -> content hash).

    Every epoch holds all CE rows and, for each, `anchor_ratio` anchor rows (the sum rounded half
    up), drawn anew without replacement; a pool that is too small is gone through again. The plan is
    cut after `epochs` (half a line counts as one) and after `max_steps` batches of `batch_rows`.
    """
    wanted = half_up(anchor_ratio * len(ce)) if pool else 0
    length = half_up(epochs * (len(ce) + wanted))
    if max_steps is not None:
        length = min(length, max_steps * batch_rows)
    own, anchors = names_of(ce), names_of(pool)
    lines: list[Line] = []
    for epoch in range(math.ceil(epochs)):
        members = [(rank("ce", seed, epoch, *name), "ce", row_id) for row_id, name in own.items()]
        members += _anchors(anchors, wanted, seed, epoch)
        for _, kind, row_id in sorted(members)[: length - len(lines)]:
            lines.append(Line(epoch, len(lines), row_id, kind))
        if len(lines) == length:
            break
    return lines


def _anchors(
    pool: Mapping[str, Name], wanted: int, seed: int, epoch: int
) -> list[tuple[bytes, str, str]]:
    """The epoch's anchor rows: (place in the epoch's order, kind, row id)."""
    order = draw(pool, wanted, "drawn", seed, epoch)
    drawn = []
    for place in range(wanted):
        row_id, round_of_pool = order[place % len(order)], place // len(order)
        key = rank("anchor", seed, epoch, round_of_pool, *pool[row_id])
        drawn.append((key, "anchor", row_id))
    return drawn


def to_table(plan: Sequence[Line]) -> pa.Table:
    return pa.Table.from_pylist([vars(line) for line in plan], schema=PLAN_SCHEMA)
