"""The composition of a fit set, to read and to compute with.

    write_composition(folder, made)     # composition.json, composition.csv, composition.md

The CSV has a line per count: `adapter`, `part`, `kind`, `name`, `rows`. The parts `kept` and
`dropped` add up to the part `input`; every breakdown (family, op, …) adds up to `kept`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from adaptermill.atomic import write_json, write_text
from adaptermill.evaluation.markdown import table

COLUMNS = ("adapter", "part", "kind", "name", "rows")
_BY = "by_"
_PLAN = ("rows", "epochs", "steps")


def breakdowns(made: Mapping[str, Any]) -> dict[str, Mapping[str, Mapping[str, int]]]:
    """What the kept rows are counted by: part -> kind -> name -> rows."""
    return {name.removeprefix(_BY): made[name] for name in made if name.startswith(_BY)}


def lines(made: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The counts of a composition, with COLUMNS."""

    def line(part: str, kind: str | None, name: str | None, rows: int) -> dict[str, Any]:
        return dict(zip(COLUMNS, (made["adapter"], part, kind, name, rows), strict=True))

    yield line("input", None, None, made["input"])
    for kind, rows in made["kept"].items():
        yield line("kept", kind, None, rows)
    for reason, rows in made["dropped"].items():
        yield line("dropped", None, reason, rows)
    for part, by_kind in breakdowns(made).items():
        for kind, names in by_kind.items():
            for name, rows in names.items():
                yield line(part, kind, name, rows)
    yield line("targets", None, "distinct", made["distinct_targets"])
    # A converted set has no plan: what trains on it makes one.
    for name in _PLAN if "plan" in made else ():
        yield line("plan", None, name, made["plan"][name])


def markdown(made: Mapping[str, Any]) -> str:
    """The composition as tables to read."""
    kept, dropped = sum(made["kept"].values()), sum(made["dropped"].values())
    ends = [*([f"kept: {kind}", rows] for kind, rows in made["kept"].items())]
    ends += [[f"left out: {reason}", rows] for reason, rows in made["dropped"].items()]
    plan, length = made.get("plan"), ""
    if plan is not None:
        length = f"{plan['rows']} rows in {plan['steps']} steps, of {plan['epochs']} epochs. "
    parts = [
        f"# Fit set of {made['adapter']}\n",
        f"{made['input']} rows came in, {kept} are kept and {dropped} left out.\n",
        table(["rows", "count"], [*ends, ["all", made["input"]]]),
        f"\n{length}{made['distinct_targets']} distinct targets; the most frequent one is "
        f"{made['top_target_share']:.1%} of them.\n",
    ]
    for part, by_kind in breakdowns(made).items():
        names = sorted({name for counts in by_kind.values() for name in counts})
        counts = [[name, *(of_kind.get(name, 0) for of_kind in by_kind.values())] for name in names]
        parts += [f"\n## By {part}\n", table([part, *by_kind], counts)]
    return "\n".join(parts)


def write_composition(folder: Path, made: Mapping[str, Any]) -> None:
    """Writes a composition in its three forms."""
    write_json(folder / "composition.json", made)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines(made))
    write_text(folder / "composition.csv", text.getvalue())
    write_text(folder / "composition.md", markdown(made))
