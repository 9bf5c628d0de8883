"""Each adapter on its own families and on all others: what it won and what it lost elsewhere.

`summary`, a line per (adapter, against, part, metric):

    part         own: the families whose rows it learned by cross-entropy; others: all others
    families     which these are, separated by `; `
    difference   the adapter's figure minus that of `against` over all rows of the part together,
                 with its interval; the other columns are those of `comparison`

A part without families (an adapter trained on all has no others) has no lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from adaptermill.evaluation.markdown import count, table, with_interval
from adaptermill.evaluation.tables import BASE, COMPARISON_SCHEMA, POOLED, HeldOut

OWN, OTHERS = "own", "others"
SEPARATOR = "; "
_NAMES = ("adapter", "against", "part", "families", "metric")
SUMMARY_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in _NAMES],
        *[field for field in COMPARISON_SCHEMA if field.name not in (*_NAMES, "family")],
    ]
)


def summary_table(held_out: HeldOut, own_families: Mapping[str, Sequence[str]]) -> pa.Table:
    """Every adapter of `own_families` against the base and `pooled`, where these are there."""
    lines = []
    for name, adapter in held_out.adapters.items():
        own = own_families.get(name)
        if name == BASE or not own:
            continue
        others = [family for family in held_out.families if family not in own]
        for against in (BASE, POOLED):
            if name == against or against not in held_out.adapters:
                continue
            for part, families in ((OWN, own), (OTHERS, others)):
                for metric in held_out.metrics if families else ():
                    figure = vars(held_out.difference(name, against, metric, families))
                    lines.append(
                        {
                            **{"adapter": name, "against": against, "part": part},
                            **{"families": SEPARATOR.join(families), "metric": metric},
                            "difference": figure.pop("value"),
                            **figure,
                            "split_hash": adapter.origin.split_hash,
                            "base_hash": adapter.origin.base_hash,
                            "adapter_key": adapter.origin.adapter_key,
                            "against_key": held_out.adapters[against].origin.adapter_key,
                        }
                    )
    return pa.Table.from_pylist(lines, schema=SUMMARY_SCHEMA)


def summary_markdown(summary: pa.Table) -> str:
    """NLL, and step success where answers were generated: a line per adapter and part."""
    lines = summary.to_pylist()
    if not lines:
        return "# Summary\n\nThere is no adapter beside the base whose families are known.\n"
    metrics = [m for m in ("nll", "step_success") if any(x["metric"] == m for x in lines)]
    cells = {(x["adapter"], x["part"], x["against"], x["metric"]): x for x in lines}
    sides = list(dict.fromkeys(line["against"] for line in lines))
    shown = []
    for adapter, part in dict.fromkeys((line["adapter"], line["part"]) for line in lines):
        figures = [cells.get((adapter, part, a, m)) for m in metrics for a in sides]
        known = next(figure for figure in figures if figure is not None)
        shown.append(
            [
                adapter,
                f"{part} ({known['families']})",
                f"{count(known['rows'], 'row')}, {count(known['episodes'], 'episode')}",
                *(
                    with_interval(x["difference"], x["low"], x["high"], x["weak"], sign=True)
                    if x
                    else "–"
                    for x in figures
                ),
            ]
        )
    header = [f"{metric} against {side}" for metric in metrics for side in sides]
    return "\n".join(
        [
            "# Summary\n",
            "Each adapter on its own families and on all others, against the base and `pooled`: "
            "the paired difference with its 95 % interval over episodes. nll is better below 0, "
            "step_success above. `*`: few held-out episodes.\n",
            table(["adapter", "families", "held out", *header], shown),
        ]
    )
