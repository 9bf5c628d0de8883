"""Adapters that differ in the training seed alone: how far a figure moves by chance.

`replicates`, a line per (group, family, metric); a group is named after its first adapter:

    adapters     the group's adapters, separated by `; `
    seeds        how many there are
    mean         of their figures
    spread       sample standard deviation of their figures (n - 1)
    least, most  the range of their figures
    rows, episodes, split_hash, base_hash   as in `evaluation`

The spread is over training runs on the same held-out rows; an interval of `evaluation` is over
held-out episodes for one run. The two say different things and neither covers the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from adaptermill.evaluation.markdown import number, table
from adaptermill.evaluation.own import SEPARATOR
from adaptermill.evaluation.tables import ALL, HeldOut

_FIGURES = ("mean", "spread", "least", "most")
REPLICATES_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("group", "adapters", "family", "metric")],
        ("seeds", pa.int64()),
        *[(name, pa.float64()) for name in _FIGURES],
        *[(name, pa.int64()) for name in ("rows", "episodes")],
        *[(name, pa.string()) for name in ("split_hash", "base_hash")],
    ]
)


def replicates_table(held_out: HeldOut, groups: Sequence[Sequence[str]]) -> pa.Table:
    """From groups of names; of a group, those that were not evaluated do not count."""
    lines = []
    for group in groups:
        names = [name for name in group if name in held_out.adapters]
        if len(names) < 2:
            continue
        for family in [*held_out.families, ALL]:
            chosen = None if family == ALL else [family]
            for metric in held_out.metrics:
                figures = [held_out.figure(name, metric, chosen) for name in names]
                values = [figure.value for figure in figures if figure.value is not None]
                known = {}
                if values:
                    spread = np.std(values, ddof=1) if len(values) > 1 else None
                    known = dict(
                        zip(
                            _FIGURES,
                            (np.mean(values), spread, min(values), max(values)),
                            strict=True,
                        )
                    )
                lines.append(
                    {
                        **{"group": names[0], "adapters": SEPARATOR.join(names)},
                        **{"family": family, "metric": metric, "seeds": len(names), **known},
                        **{"rows": figures[0].rows, "episodes": figures[0].episodes},
                        "split_hash": held_out.origin.split_hash,
                        "base_hash": held_out.origin.base_hash,
                    }
                )
    return pa.Table.from_pylist(lines, schema=REPLICATES_SCHEMA)


def replicates_markdown(replicates: pa.Table) -> str:
    lines = replicates.to_pylist()
    if not lines:
        return (
            "# Replicates\n\nNo two evaluated adapters differ in the seed alone; a sweep over "
            "`seed` makes some.\n"
        )
    parts = [
        "# Replicates\n",
        "Adapters that differ in the training seed alone: mean ± spread (sample standard "
        "deviation over training runs, on the same held-out rows).",
    ]
    for group in dict.fromkeys(line["group"] for line in lines):
        mine = [line for line in lines if line["group"] == group]
        families = list(dict.fromkeys(line["family"] for line in mine))
        cells = {(line["family"], line["metric"]): line for line in mine}
        parts.append(f"\n## {group}\n\n{mine[0]['seeds']} seeds: {mine[0]['adapters']}\n")
        parts.append(
            table(
                ["metric", *families],
                [
                    [metric, *(mean_and_spread(cells[family, metric]) for family in families)]
                    for metric in dict.fromkeys(line["metric"] for line in mine)
                ],
            )
        )
    return "\n".join(parts)


def mean_and_spread(line: dict) -> str:
    """`2.10 ± 0.03`."""
    if line["mean"] is None:
        return "–"
    return f"{number(line['mean'])} ± {number(line['spread'])}"
