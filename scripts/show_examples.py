"""Shows the examples of a fit set, kept and left out, as one HTML page for a person to look at.

    show_examples.py results/fitsets/drag                 writes results/fitsets/drag/examples.html
    show_examples.py results/fitsets/drag --each 100 --output /tmp/drag.html

The page holds its screenshots and opens without a network. Of every kind and every reason it shows
as many rows as `--each` says, always the same ones.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from adaptermill.atomic import write_text
from adaptermill.errors import UserError, run_command
from adaptermill.fitsets import page
from adaptermill.rows.dataset import Images, Rows, open_sources
from adaptermill.sizes import readable

# Columns of the fit set that are shown where they say something.
_FACTS = (
    *("op", "variant", "step", "seat", "query_id", "pair_id", "reward", "advantage", "judge"),
    *("prompt_tokens", "target_tokens", "image_tokens"),
)


@dataclass(frozen=True)
class Line:
    """A line of fitset.parquet or dropped.parquet; `reason` is the kind of one that is kept."""

    row_id: str
    kept: bool
    reason: str
    stage: str = ""
    detail: str | None = None
    columns: dict[str, Any] = field(default_factory=dict)


def read_lines(folder: Path) -> list[Line]:
    """All lines of a fit set, kept ones first."""
    tables = {}
    for name in ("fitset", "dropped"):
        path = folder / f"{name}.parquet"
        if not path.is_file():
            raise UserError(
                f"{path} is missing; {folder} must be a fit set, such as results/fitsets/drag "
                f"(make it with snakemake {path})"
            )
        tables[name] = pq.read_table(path).to_pylist()
    kept = [Line(row["row_id"], True, row["kind"], columns=row) for row in tables["fitset"]]
    return kept + [
        Line(row["row_id"], False, row["reason"], row["stage"], row["detail"])
        for row in tables["dropped"]
    ]


def choose(lines: Sequence[Line], each: int) -> tuple[list[Line], list[page.Group]]:
    """About `each` lines of every kind and reason, and how many there are of them in all.

    What a chosen line repeats is shown beside it, so there can be a few more.
    """
    by_end: dict[tuple[bool, bool, str], list[Line]] = {}
    for line in lines:
        # What is kept first, and of that what is learned from first.
        by_end.setdefault((not line.kept, line.reason != "ce", line.reason), []).append(line)
    drawn: dict[tuple[bool, bool, str], list[Line]] = {}
    for end, members in by_end.items():
        # A draw that is the same in every run, and that one row more hardly changes.
        order = sorted(members, key=lambda line: hashlib.sha256(line.row_id.encode()).digest())
        drawn[end] = order[:each]
    repeated = {line.detail for some in drawn.values() for line in some} - {None}
    chosen, groups = [], []
    for end, members in sorted(by_end.items()):
        names = {line.row_id for line in drawn[end]} | repeated
        some = sorted((m for m in members if m.row_id in names), key=lambda line: line.row_id)
        chosen += some
        groups.append(page.Group(not end[0], end[2], len(members), len(some)))
    return chosen, groups


def make_examples(lines: Sequence[Line], rows: Rows, images: Images) -> list[page.Example]:
    anchors: dict[str, str] = {}
    for number, line in enumerate(lines):
        anchors.setdefault(line.row_id, f"example-{number}")
    found = []
    for number, line in enumerate(lines):
        row = rows.get(line.row_id)
        end, cut = page.prompt_end(row)
        columns = {"op": row.op, "variant": row.variant, "step": row.step, **line.columns}
        facts = {name.replace("_", " "): columns.get(name) for name in _FACTS}
        found.append(
            page.Example(
                anchor=f"example-{number}",
                row_id=line.row_id,
                kept=line.kept,
                reason=line.reason,
                stage=line.stage,
                detail=line.detail,
                detail_anchor=anchors.get(line.detail or ""),
                family=columns.get("family", row.family),
                facts={name: str(value) for name, value in facts.items() if value is not None},
                pictures=[page.data_url(images.bytes(sha256)) for sha256 in row.images],
                prompt_end=end,
                cut=cut,
                messages=page.shown_messages(row),
                target=page.shown_target(row.target),
            )
        )
    return found


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("fitset", type=Path, help="folder of a fit set: results/fitsets/<adapter>")
    parser.add_argument(
        "--data",
        type=Path,
        action="append",
        help="ingested source that the rows are of (default: all of results/ingest)",
    )
    parser.add_argument("--each", type=int, default=24, help="rows of every kind and every reason")
    parser.add_argument("--output", type=Path, help="the page (default: examples.html in the set)")
    arguments = parser.parse_args(argv)
    if arguments.each < 1:
        raise UserError(f"--each {arguments.each}: at least 1 row of every kind must be shown")
    folder = arguments.fitset
    lines, groups = choose(read_lines(folder), arguments.each)
    if not lines:
        raise UserError(f"{folder} holds no row at all, neither kept nor left out")
    summaries = folder.resolve().parents[1].glob("ingest/*/summary.json")
    data = arguments.data or sorted(path.parent for path in summaries)
    if not data:
        raise UserError(
            f"there is no ingested source at {folder}/../../ingest; name it with --data"
        )
    examples = make_examples(lines, *open_sources(data))
    output = arguments.output or folder / "examples.html"
    write_text(output, page.render(folder.resolve().name, examples, groups))
    total = sum(group.rows for group in groups)
    print(f"{output}: {len(examples)} of {total} rows, {readable(output.stat().st_size)}")


if __name__ == "__main__":
    sys.exit(run_command(main))
