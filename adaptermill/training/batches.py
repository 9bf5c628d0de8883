"""Global batches: cut from the plan, their common prefix, and their shares per process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from adaptermill.models.encode import Encoded
from adaptermill.models.prefix import common_prefix
from adaptermill.training.checkpoint import Refusal


@dataclass(frozen=True)
class PlanLine:
    """One line of the plan: a row to train on, as `ce` or `anchor`."""

    epoch: int
    position: int
    row_id: str
    kind: str


def read_plan(path: Path) -> list[PlanLine]:
    """The plan in its order; `Refusal` for an empty one."""
    columns = pq.read_table(path).to_pydict()
    names = ("epoch", "position", "row_id", "kind")
    lines = [PlanLine(*values) for values in zip(*(columns[n] for n in names), strict=True)]
    if not lines:
        raise Refusal(f"{path} is empty: there is nothing to train on")
    return lines


def cut(plan: Sequence[PlanLine], batch_rows: int) -> list[list[PlanLine]]:
    """Consecutive batches of `batch_rows` lines; the last may be shorter."""
    return [list(plan[at : at + batch_rows]) for at in range(0, len(plan), batch_rows)]


@dataclass(frozen=True)
class Shares:
    """How a batch is run: which of its rows each process takes, and what they share.

    `prefix`: how many first tokens are common to all rows of the batch. `lengths`: tokens of each
    row. `places`: positions in the batch, per process. `shared`: whether a process with several
    rows runs the prefix once for all of them.
    """

    prefix: int
    lengths: list[int]
    places: list[list[int]]
    shared: bool

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    @property
    def saved(self) -> int:
        """Tokens that need not be run, since another row of the same process has run them."""
        return sum(self.prefix * max(0, len(own) - 1) for own in self.places) * self.shared

    def shares_prefix(self, process: int) -> bool:
        return self.shared and self.prefix > 0 and len(self.places[process]) > 1


def plan_shares(rows: Sequence[Encoded], processes: int, *, share_prefix: bool) -> Shares:
    """The shares of a batch; the same on every process."""
    prefix = common_prefix(rows)
    lengths = [len(row.input_ids) for row in rows]
    # A process pays for the prefix once, however many rows it takes.
    weights = [length - prefix for length in lengths] if share_prefix else lengths
    return Shares(prefix, lengths, share_out(weights, processes), share_prefix)


def share_out(lengths: Sequence[int], processes: int) -> list[list[int]]:
    """Positions of a batch per process, with nearly equal token counts; some may get none.

    Longest first to the process with the fewest tokens: the same on every process.
    """
    shares: list[list[int]] = [[] for _ in range(processes)]
    loads = [0] * processes
    for place in sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)):
        process = loads.index(min(loads))
        shares[process].append(place)
        loads[process] += lengths[place]
    return [sorted(share) for share in shares]
