"""From tables and records to what the page's template shows in its smaller tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from adaptermill.errors import UserError
from adaptermill.evaluation.markdown import count, number, with_interval
from adaptermill.evaluation.replicates import mean_and_spread
from adaptermill.evaluation.tables import ALL, BASE

Lines = Sequence[Mapping[str, Any]]


def read_record(folder: Path) -> dict[str, Any]:
    """What a published adapter says of itself."""
    path = folder / "training.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing; build it with snakemake {folder}") from None


def origin(evaluation: Path) -> dict[str, Any]:
    """What the predictions in a file were made of."""
    metadata = pq.read_schema(evaluation).metadata or {}
    return json.loads(metadata.get(b"adaptermill", b"{}"))


def base(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"model": found["model"], "revision": found.get("revision")}


def heldout(evaluation: Lines) -> str:
    """`219 held-out rows of 71 episodes in 7 families`."""
    lines = [x for x in evaluation if (x["adapter"], x["metric"]) == (BASE, "nll")]
    whole = next((line for line in lines if line["family"] == ALL), {"rows": 0, "episodes": 0})
    families = sum(line["rows"] > 0 and line["family"] != ALL for line in lines)
    if not whole["rows"]:
        return "no held-out rows"
    held = f"{whole['rows']:,} held-out rows of {count(whole['episodes'], 'episode')}"
    return f"{held} in {families} famil{'y' if families == 1 else 'ies'}"


def replicates(table: Lines, metric: str = "nll") -> dict[str, Any] | None:
    """Mean and spread of one metric: groups down, families across."""
    lines = [line for line in table if line["metric"] == metric]
    if not lines:
        return None
    families = list(dict.fromkeys(line["family"] for line in lines))
    cells = {(line["group"], line["family"]): line for line in lines}
    groups = {line["group"]: line["adapters"] for line in lines}
    return {
        "families": ["all families" if family == ALL else family for family in families],
        "rows": [
            (names.replace("; ", ", "), [mean_and_spread(cells[group, f]) for f in families])
            for group, names in groups.items()
        ],
    }


def training(table: Lines) -> dict[str, Any] | None:
    if not table:
        return None
    shown = {
        "rank": "rank",
        "learning_rate": "learning rate",
        "batch_rows": "batch",
        "beta": "beta",
        "seed": "seed",
        "ce_rows": "CE rows",
        "anchor_rows": "anchor rows",
        "steps": "steps",
        "minutes": "minutes",
        "heldout_ce": "held-out CE",
        "heldout_ce_base": "the base's",
    }
    return {
        "header": ["adapter", *shown.values()],
        "rows": [[x["adapter"], *(_plain(x[name]) for name in shown)] for x in table],
    }


def arms(table: Lines) -> dict[str, Any]:
    """The arms of consensus training: a line each, the base's first, and what to be warned of."""

    def interval(line: Mapping[str, Any], *names: str, sign: bool = False) -> str:
        return with_interval(*(line[name] for name in names), False, sign)

    differences = ("difference", "difference_low", "difference_high")
    return {
        "header": [
            *("adapter", "arm", "held-out NLL", "to the base", "right"),
            *("primal residual", "disagreement", "MB per node"),
        ],
        "rows": [
            [
                line["adapter"],
                line["arm"] or "–",
                interval(line, "nll", "low", "high"),
                interval(line, *differences, sign=True).replace("-", "−"),
                "–" if line["right"] is None else f"{line['right']:.0%}",
                number(line["primal_residual"]),
                number(line["disagreement"]),
                "–" if line["bytes_per_node"] is None else number(line["bytes_per_node"] / 1e6),
            ]
            for line in table
        ],
        "growing": [
            (line["adapter"], line["growing"]) for line in table if line["growing"] is not None
        ],
    }


def _plain(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 0.01 or value == int(value) else number(value)
    return f"{value:,}"


def dropped(table: Lines) -> dict[str, Any]:
    """Rows that fit sets leave out: adapters down, reasons across."""
    lines = [line for line in table if line["part"] == "dropped"]
    reasons = sorted({line["name"] for line in lines})
    counts = {(line["adapter"], line["name"]): line["rows"] for line in lines}
    adapters = list(dict.fromkeys(line["adapter"] for line in lines))
    return {
        "reasons": [reason.replace("_", " ") for reason in reasons],
        "rows": [(name, [counts.get((name, r), 0) for r in reasons]) for name in adapters],
    }


def sources(table: Lines) -> list[dict[str, Any]]:
    """What came in from each source, and why lines were refused."""
    found: dict[str, dict[str, Any]] = {}
    for line in table:
        source = found.setdefault(
            line["source"],
            {
                "name": line["source"],
                **{name: line[name] for name in ("lines", "rows", "quarantined")},
                "reasons": [],
            },
        )
        if line["reason"] is not None:
            source["reasons"].append((line["reason"], line["count"]))
    return list(found.values())


def facts(
    base: Mapping[str, Any], made_of: Mapping[str, Any], records: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """What the figures were made of: hashes, precision, versions."""
    versions: dict[str, set[str]] = {}
    for record in records.values():
        telemetry = record.get("telemetry", {})
        for name, version in telemetry.get("versions", {}).items():
            versions.setdefault(name, set()).add(version)
        if "python" in telemetry:
            versions.setdefault("python", set()).add(telemetry["python"])
    found = [
        ("held-out rows", made_of.get("split_hash", "–")),
        ("base", f"{base['model']} {base.get('revision') or ''}".strip()),
        ("base, by content", made_of.get("base_hash", "–")),
        ("evaluated in", f"{made_of.get('dtype', '–')} on {made_of.get('device', '–')}"),
    ]
    if versions:
        listed = (f"{name} {', '.join(sorted(each))}" for name, each in sorted(versions.items()))
        found.append(("trained with", "; ".join(listed)))
    trusted = [name for name, record in records.items() if record.get("code_trusted")]
    if trusted:
        found.append(("code left out of the keys", f"{', '.join(trusted)} (training.trust_code)"))
    return found


def hashes(records: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    names = ("fitset", "plan", "recipe", "code")
    return {
        "header": ["adapter", "key", *names],
        "rows": [
            [name, record["key"], *(record.get("hashes", {}).get(each, "–") for each in names)]
            for name, record in records.items()
        ],
    }


def flow_counts(
    tables: Mapping[str, Lines],
    base: Mapping[str, Any],
    records: Mapping[str, Mapping[str, Any]],
) -> dict[str, str]:
    """What each rule made, in a few words."""
    came_in = sources(tables["quarantine"])
    episodes = sum(
        x["episodes"] for x in tables["splits"] if (x["part"], x["by"]) == ("episodes", "all")
    )
    whole = {x["adapter"]: x for x in tables["evaluation"] if x["family"] == ALL}
    fitsets = {line["adapter"] for line in tables["fitsets"]}
    model = base["model"].rsplit("/", 1)[-1]
    return {
        "scan": count(len(came_in), "source"),
        "base": model if len(model) <= 18 else model[:17] + "…",
        "ingest": f"{sum(source['rows'] for source in came_in):,} rows",
        "split": f"{episodes:,} episodes",
        "measure": "in tokens",
        "heldout": f"{max((x['rows'] for x in whole.values()), default=0):,} rows",
        "fitset": count(len(fitsets), "fit set"),
        "train": count(len(records), "adapter"),
        "evaluate": f"the base and {len(whole) - 1}" if whole else "–",
        "tables": count(len(tables), "table"),
        "report": "HTML and SVG",
        "card": count(max(len(whole) - 1, 0), "card"),
    }
