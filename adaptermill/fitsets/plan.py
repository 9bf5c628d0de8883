"""The plan: what is trained on, in what order, for all epochs, written before training starts.

Orders are sorts by SHA-256 of (seed, epoch, row id), not a generator's draws: the plan is the same
on any machine, and a row more or less moves no other row.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
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


def draw(row_ids: Sequence[str], count: int, *seed: object) -> list[str]:
    """The first `count` of the rows in the order that the seed gives them."""
    return sorted(row_ids, key=lambda row_id: rank(*seed, row_id))[:count]


def make_plan(
    ce: Sequence[str],
    pool: Sequence[str],
    *,
    seed: int,
    epochs: float,
    anchor_ratio: float,
    batch_rows: int,
    max_steps: int | None = None,
) -> list[Line]:
    """The plan over cross-entropy rows `ce` and anchor pool `pool`.

    Every epoch holds all CE rows and, for each, `anchor_ratio` anchor rows (the sum rounded half
    up), drawn anew without replacement; a pool that is too small is gone through again. A
    fractional last epoch is cut, and so is all beyond `max_steps` batches of `batch_rows`.
    """
    wanted = half_up(anchor_ratio * len(ce)) if pool else 0
    lines: list[Line] = []
    for epoch in range(math.ceil(epochs)):
        members = [("ce", row_id, 0) for row_id in ce]
        members += [("anchor", *drawn) for drawn in _anchors(pool, wanted, seed, epoch)]
        members.sort(key=lambda member: rank("order", seed, epoch, *member))
        share = min(1.0, epochs - epoch)
        for kind, row_id, _ in members[: half_up(share * len(members))]:
            lines.append(Line(epoch, len(lines), row_id, kind))
    return lines if max_steps is None else lines[: max_steps * batch_rows]


def _anchors(pool: Sequence[str], wanted: int, seed: int, epoch: int) -> list[tuple[str, int]]:
    """(row id, round) of the epoch's anchor rows: round 0 goes through the pool first."""
    order = draw(pool, len(pool), "anchor", seed, epoch)
    return [(order[place % len(order)], place // len(order)) for place in range(wanted)]


def to_table(plan: Sequence[Line]) -> pa.Table:
    return pa.Table.from_pylist([vars(line) for line in plan], schema=PLAN_SCHEMA)
