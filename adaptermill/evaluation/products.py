"""Tables of what went before the evaluation: fit sets, training, splits, quarantine.

Each function takes the products as read from their files and returns an Arrow table; the Markdown
form is made by the function named `…_markdown`.

`fitsets` (adapter, part, kind, name, rows): `part` is input, kept, dropped (`name`: the reason),
family, op, variant (`kind`: ce or anchor; `name`: which), targets (`name`: distinct) or plan
(`name`: rows, epochs, steps).
`training`: the recipe, what was trained on and how long it took; `heldout_ce` is the adapter's nll
over the held-out rows of its own families, `heldout_ce_base` the base's.
`splits` (part, side, by, name, episodes, rows): `part` is episodes (`by` all, variant or family) or
leaks (held-out rows with a twin in training; `by` exact, or near for those that have no exact one;
`name`: what is compared).
`quarantine` (source, lines, rows, quarantined, reason, count): a line per source and reason; a
source without any has one line with no reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from adaptermill.evaluation.markdown import number, table
from adaptermill.evaluation.tables import BASE, HeldOut
from adaptermill.fitsets import table as composition

FITSETS_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("adapter", "part", "kind", "name")],
        ("rows", pa.int64()),
    ]
)
RECIPE = {
    "rank": pa.int64(),
    "alpha": pa.float64(),
    "dropout": pa.float64(),
    "lora_targets": pa.string(),
    "learning_rate": pa.float64(),
    "batch_rows": pa.int64(),
    "beta": pa.float64(),
    "ce_on": pa.string(),
    "seed": pa.int64(),
    "init_from": pa.string(),
}
TRAINING_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("adapter", "method", "base", "revision")],
        *RECIPE.items(),
        *[(name, pa.int64()) for name in ("ce_rows", "anchor_rows", "pairs", "steps")],
        *[(name, pa.float64()) for name in ("minutes", "heldout_ce", "heldout_ce_base")],
        *[(name, pa.string()) for name in ("device", "dtype", "adapter_key")],
    ]
)
SPLITS_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("part", "side", "by", "name")],
        *[("episodes", pa.int64()), ("rows", pa.int64())],
    ]
)
QUARANTINE_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        *[(name, pa.int64()) for name in ("lines", "rows", "quarantined")],
        *[("reason", pa.string()), ("count", pa.int64())],
    ]
)


# ---- fit sets --------------------------------------------------------------------------------


def fitsets_table(compositions: Sequence[Mapping[str, Any]]) -> pa.Table:
    """From the `composition.json` of every adapter."""
    lines = [line for made in compositions for line in composition.lines(made)]
    return pa.Table.from_pylist(lines, schema=FITSETS_SCHEMA)


def fitsets_markdown(compositions: Sequence[Mapping[str, Any]]) -> str:
    kinds = _names(compositions, lambda made: made["kept"])
    reasons = _names(compositions, lambda made: made["dropped"])
    summary = table(
        ["adapter", "input", *kinds, *reasons, "plan rows", "epochs", "steps"],
        [
            [
                made["adapter"],
                made["input"],
                *(made["kept"].get(kind, 0) for kind in kinds),
                *(made["dropped"].get(reason, 0) for reason in reasons),
                *(made["plan"][name] for name in ("rows", "epochs", "steps")),
            ]
            for made in compositions
        ],
    )
    parts = [
        "# Fit sets\n",
        f"`input` is what is kept ({', '.join(kinds) or 'nothing'}) plus what is dropped, by "
        "reason.\n",
        summary,
    ]
    parts_of = [composition.breakdowns(made) for made in compositions]
    for part in dict.fromkeys(part for made in parts_of for part in made):
        names = sorted({name for made in parts_of for name in _flat(made.get(part, {}))})
        parts.append(f"\n## By {part} ({' + '.join(kinds)} rows)\n")
        lines = [
            [
                made["adapter"],
                *(
                    " + ".join(str(by.get(part, {}).get(kind, {}).get(name, 0)) for kind in kinds)
                    for name in names
                ),
            ]
            for made, by in zip(compositions, parts_of, strict=True)
        ]
        parts.append(table(["adapter", *names], lines))
    return "\n".join(parts)


def _flat(by_kind: Mapping[str, Mapping[str, int]]) -> list[str]:
    return [name for names in by_kind.values() for name in names]


def _names(compositions: Sequence[Mapping[str, Any]], of: Any) -> list[str]:
    return sorted({name for made in compositions for name in of(made)})


# ---- training --------------------------------------------------------------------------------


def training_table(
    records: Sequence[Mapping[str, Any]],
    own_families: Mapping[str, Sequence[str]],
    held_out: HeldOut | None,
) -> pa.Table:
    """From the `training.json` of every adapter; held-out figures where they are known."""
    lines = []
    for record in records:
        name, telemetry = record["adapter"], record["telemetry"]
        lines.append(
            {
                "adapter": name,
                "method": record["method"],
                "base": record["base"]["model"],
                "revision": record["base"]["revision"],
                **{setting: record["recipe"].get(setting) for setting in RECIPE},
                "ce_rows": record["rows"].get("ce", 0),
                "anchor_rows": record["rows"].get("anchor", 0),
                "pairs": record["rows"].get("pairs", 0),
                "steps": record["steps"],
                "minutes": telemetry["minutes"],
                "heldout_ce": _heldout_ce(held_out, name, own_families.get(name)),
                "heldout_ce_base": _heldout_ce(held_out, BASE, own_families.get(name)),
                "device": telemetry["device"],
                "dtype": telemetry["dtype"],
                "adapter_key": record["key"],
            }
        )
    return pa.Table.from_pylist(lines, schema=TRAINING_SCHEMA)


def _heldout_ce(
    held_out: HeldOut | None, name: str, families: Sequence[str] | None
) -> float | None:
    if held_out is None or name not in held_out.adapters or not families:
        return None
    return held_out.figure(name, "nll", families).value


def training_markdown(training: pa.Table) -> str:
    lines = training.to_pylist()
    settings = [name for name in RECIPE if any(line[name] is not None for line in lines)]
    counted = [n for n in ("ce_rows", "anchor_rows", "pairs") if n != "pairs" or _any(lines, n)]
    return "\n".join(
        [
            "# Training\n",
            "`held-out CE`: mean -log p of the recorded answers over the held-out rows of the "
            "adapter's own families, beside the base's.\n",
            table(
                [
                    *("adapter", *(n.replace("_", " ") for n in counted), "steps", "minutes"),
                    *("held-out CE", "base's", "device"),
                ],
                [
                    [
                        *(line[name] for name in ("adapter", *counted, "steps")),
                        number(line["minutes"]),
                        number(line["heldout_ce"]),
                        number(line["heldout_ce_base"]),
                        f"{line['device']}, {line['dtype']}",
                    ]
                    for line in lines
                ],
            ),
            "\n## Recipes\n",
            table(
                ["adapter", "method", "base", *settings],
                [
                    [
                        *(line[name] for name in ("adapter", "method", "base")),
                        *(_plain(line[name]) for name in settings),
                    ]
                    for line in lines
                ],
            ),
        ]
    )


def _any(lines: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(line[name] for line in lines)


def _plain(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) else value


# ---- splits ----------------------------------------------------------------------------------


def splits_table(episodes: pd.DataFrame, leaks: Mapping[str, Any] | None) -> pa.Table:
    """From `episodes.parquet` and `leaks.json`.

    An episode of several families (a chain) counts for each of them; the rows of a family are not
    known here.
    """
    lines: list[dict[str, Any]] = []

    def add(side: str, by: str, name: str | None, chosen: pd.DataFrame, rows: bool = True) -> None:
        counts = {"episodes": len(chosen), "rows": int(chosen["rows"].sum()) if rows else None}
        lines.append({"part": "episodes", "side": side, "by": by, "name": name, **counts})

    for side, chosen in episodes.groupby("side", sort=True):
        add(str(side), "all", None, chosen)
        for variant, some in chosen.groupby("variant", sort=True):
            add(str(side), "variant", str(variant), some)
        exploded = chosen.explode("families")
        for family, some in exploded.groupby("families", sort=True):
            add(str(side), "family", str(family), some, rows=False)
    leaks = leaks or {"duplicates": {}}
    near = leaks.get("near_duplicates", {"compared": {}})["compared"]
    for by, compared in (("exact", leaks["duplicates"]), ("near", near)):
        for name, found in compared.items():
            lines.append({"part": "leaks", "by": by, "name": name, "rows": found["heldout_rows"]})
    return pa.Table.from_pylist(lines, schema=SPLITS_SCHEMA)


def splits_markdown(splits: pa.Table) -> str:
    lines = splits.to_pylist()
    episodes = [line for line in lines if line["part"] == "episodes"]
    sides = list(dict.fromkeys(line["side"] for line in episodes))
    cells = {(line["side"], line["by"], line["name"]): line for line in episodes}

    def counted(by: str, what: str) -> str:
        names = list(dict.fromkeys(line["name"] for line in episodes if line["by"] == by))
        return table(
            [by, *sides],
            [
                [
                    name or "episodes",
                    *(cells.get((side, by, name), {}).get(what, 0) for side in sides),
                ]
                for name in names
            ],
        )

    found = {(line["name"], line["by"]): line["rows"] for line in lines if line["part"] == "leaks"}
    compared = list(dict.fromkeys(name for name, _ in found))
    leaks = [[name, *(found.get((name, by)) for by in ("exact", "near"))] for name in compared]
    parts = [
        "# Splits\n",
        "Episodes on each side.\n",
        *(counted(by, "episodes") for by in ("all", "variant", "family")),
        "\n## Rows\n",
        counted("variant", "rows"),
    ]
    if leaks:
        parts += [
            "\n## Leaks\n",
            "Held-out rows that have an exact twin among the training rows, and others that have a "
            "near one, by what is compared.\n",
            table(["compared", "exact", "near"], leaks),
        ]
    return "\n".join(parts)


# ---- quarantine ------------------------------------------------------------------------------


def quarantine_table(summary: Mapping[str, Any]) -> pa.Table:
    """From the summary of all sources."""
    lines = []
    for source, counts in summary["sources"].items():
        shared = {name: counts[name] for name in ("lines", "rows", "quarantined")}
        for reason, found in (counts["reasons"] or {None: 0}).items():
            lines.append({"source": source, **shared, "reason": reason, "count": found})
    return pa.Table.from_pylist(lines, schema=QUARANTINE_SCHEMA)


def quarantine_markdown(quarantine: pa.Table) -> str:
    lines = quarantine.to_pylist()
    totals = {line["source"]: line for line in lines}
    parts = [
        "# Quarantine\n",
        "Every line of every file is a row or a quarantined line; nothing is repaired.\n",
        table(
            ["source", "lines", "rows", "quarantined"],
            [
                [line[name] for name in ("source", "lines", "rows", "quarantined")]
                for line in totals.values()
            ],
        ),
    ]
    refused = [line for line in lines if line["reason"] is not None]
    if refused:
        parts += [
            "\n## Reasons\n",
            table(
                ["source", "reason", "lines"],
                [[line[name] for name in ("source", "reason", "count")] for line in refused],
            ),
        ]
    return "\n".join(parts)
