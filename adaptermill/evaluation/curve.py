"""How held-out NLL went along: the adapter after each of its epochs.

`epochs`, a line per (adapter, part, epoch):

    part       own: the families whose rows it learned by cross-entropy; others; or a family
    epoch      0 is the base, the last one the finished adapter
    nll        mean over rows of the mean -log p of the answer's tokens
    low, high, rows, episodes, weak, split_hash, base_hash, adapter_key   as in `evaluation`

Adapters that kept no earlier epochs have no lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from adaptermill.evaluation.markdown import table, with_interval
from adaptermill.evaluation.metrics import RowFigures
from adaptermill.evaluation.own import OTHERS, OWN
from adaptermill.evaluation.predictions import Predictions
from adaptermill.evaluation.tables import BASE, EVALUATION_SCHEMA, HeldOut

_KEYS = (("adapter", pa.string()), ("part", pa.string()), ("epoch", pa.int64()))
EPOCHS_SCHEMA = pa.schema(
    [
        *_KEYS,
        ("nll", pa.float64()),
        *[
            field
            for field in EVALUATION_SCHEMA
            if field.name not in ("adapter", "family", "metric", "value")
        ],
    ]
)


def epochs_table(
    held_out: HeldOut,
    files: Sequence[Predictions],
    own_families: Mapping[str, Sequence[str]],
) -> pa.Table:
    """From the predictions that `held_out` was made of."""
    lines: list[dict[str, Any]] = []
    for file in sorted(files, key=lambda file: list(held_out.adapters).index(file.name)):
        if file.name == BASE or BASE not in held_out.adapters:
            continue
        finished = held_out.adapters[file.name]
        earlier = list(_earlier(file, finished))
        if not earlier:
            continue
        own = own_families.get(file.name, ())
        others = [family for family in held_out.families if family not in own]
        parts = {OWN: own, OTHERS: others, **{family: [family] for family in held_out.families}}
        for part, families in parts.items():
            if not families:
                continue
            for epoch, figures in enumerate([held_out.adapters[BASE], *earlier, finished]):
                figure = vars(held_out.figure_of(figures, "nll", families))
                lines.append(
                    {
                        **{"adapter": file.name, "part": part, "epoch": epoch},
                        **{"nll": figure.pop("value"), **figure},
                        "split_hash": file.origin.split_hash,
                        "base_hash": file.origin.base_hash,
                        "adapter_key": file.origin.adapter_key,
                    }
                )
    return pa.Table.from_pylist(lines, schema=EPOCHS_SCHEMA)


def _earlier(file: Predictions, finished: RowFigures) -> Iterator[RowFigures]:
    """The rows' figures after each epoch but the last."""
    values = [row or [] for row in file.rows["epochs_nll"].to_pylist()]
    for epoch in range(min(map(len, values), default=0)):
        nll = np.array([row[epoch] for row in values], dtype=np.float64)
        yield replace(finished, summands={"nll": (nll, np.ones(len(nll)))})


def epochs_markdown(epochs: pa.Table) -> str:
    lines = epochs.to_pylist()
    if not lines:
        return "# Epochs\n\nNo adapter was evaluated after an earlier epoch.\n"
    last = max(line["epoch"] for line in lines)
    cells = {(line["adapter"], line["part"], line["epoch"]): line for line in lines}
    shown = []
    for adapter, part in dict.fromkeys((line["adapter"], line["part"]) for line in lines):
        found = [cells.get((adapter, part, epoch)) for epoch in range(last + 1)]
        shown.append(
            [
                adapter,
                part,
                *(
                    with_interval(x["nll"], x["low"], x["high"], x["weak"]) if x else ""
                    for x in found
                ),
            ]
        )
    return "\n".join(
        [
            "# Epochs\n",
            "Held-out NLL after each epoch, with its 95 % interval over episodes; epoch 0 is the "
            "base.\n",
            table(["adapter", "families", *map(str, range(last + 1))], shown),
        ]
    )
