"""What came in: counts that add up, per source and in all, and the limit on refused lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from adaptermill.errors import UserError
from adaptermill.rows.readers.reader import Unit
from adaptermill.rows.schema import QUARANTINE_SCHEMA
from adaptermill.rows.units import read_units

SHOWN_FILES = 20
KINDS = ("shards", "images", "quarantine")


def summarize(manifest: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The summary of one ingested source.

    `lines` (not blank) is always `rows` plus `quarantined`. `UserError` when the shards on disk do
    not add up to that.
    """
    names = [shard["name"] for shard in manifest["shards"]]
    totals: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    families: Counter[str] = Counter()
    variants: Counter[str] = Counter()
    per_file: dict[str, Counter[str]] = {}
    images = []
    for name in names:
        quarantine = pq.ParquetFile(folder / "quarantine" / f"{name}.parquet")
        facts = json.loads(quarantine.metadata.metadata[b"adaptermill"])
        counted: Counter[str] = Counter()
        for file, counts in facts["files"].items():
            counted.update(counts)
            # A long file's lines are spread over shards.
            per_file.setdefault(file, Counter()).update(counts)
        for fact in ("episodes", "episodes_without_metadata"):
            counted[fact] = facts[fact]
        rows = pq.read_table(folder / "shards" / f"{name}.parquet", columns=["family", "variant"])
        if counted["lines"] != rows.num_rows + quarantine.metadata.num_rows:
            raise UserError(
                f"shard {name} in {folder} does not add up: {counted['lines']} lines, "
                f"{rows.num_rows} rows, {quarantine.metadata.num_rows} quarantined; delete its "
                "files under shards/, images/ and quarantine/, and build again"
            )
        totals.update(counted)
        reasons.update(_counts(quarantine.read(columns=["reason"])["reason"]))
        families.update(_counts(rows["family"]))
        variants.update(_counts(rows["variant"]))
        path = folder / "images" / f"{name}.parquet"
        images.append(pq.read_table(path, columns=["sha256"])["sha256"])
    stored = sum(len(column) for column in images)
    distinct = pc.count_distinct(
        pa.chunked_array([chunk for column in images for chunk in column.chunks], pa.string())
    ).as_py()
    return {
        "source": manifest["source"],
        "lines": totals["lines"],
        "rows": totals["rows"],
        "quarantined": totals["quarantined"],
        "reasons": _sorted(reasons),
        "files": len(per_file),
        "episodes": totals["episodes"],
        "replaced": manifest["replaced"],
        "folders_without_rows": manifest["folders_without_rows"],
        "episodes_without_metadata": totals["episodes_without_metadata"],
        "families": _sorted(families),
        "variants": _sorted(variants),
        "images": distinct,
        "images_repeated_across_shards": stored - distinct,
        "bytes": manifest["bytes"],
        "shards": names,
        "per_file": {
            file: {name: per_file[file][name] for name in ("lines", "rows", "quarantined")}
            for file in sorted(per_file)
        },
    }


def merge_quarantine(
    manifest: Mapping[str, Any], units_path: Path, folder: Path, output: Path
) -> None:
    """Writes the quarantine records of all shards to one file, shard by shard.

    There `file` is a path that can be opened, where shards hold the path below the source's root.
    """
    with pq.ParquetWriter(output, QUARANTINE_SCHEMA, compression="zstd") as writer:
        for shard in manifest["shards"]:
            file = pq.ParquetFile(folder / "quarantine" / f"{shard['name']}.parquet")
            if file.metadata.num_rows == 0:
                continue
            units = [Unit.from_json(values) for values in read_units(units_path, shard["name"])]
            roots = {unit.file or unit.name: unit.root for unit in units}
            for group in range(file.num_row_groups):
                table = file.read_row_group(group).replace_schema_metadata(None)
                names = table["file"].to_pylist()
                paths = [_place(name, roots) for name in names]
                position = table.schema.get_field_index("file")
                field = QUARANTINE_SCHEMA.field("file")
                writer.write_table(table.set_column(position, field, pa.array(paths, pa.string())))


def _place(name: str, roots: Mapping[str, Path]) -> str:
    root = roots[name] if name in roots else roots[name.split("/", 1)[0]]
    return str(root / name)


def combine(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All sources together, and each by its name."""
    totals: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    families: Counter[str] = Counter()
    for summary in summaries:
        totals.update({name: summary[name] for name in ("lines", "rows", "quarantined", "files")})
        reasons.update(summary["reasons"])
        families.update(summary["families"])
    return {
        **{name: totals[name] for name in ("lines", "rows", "quarantined")},
        "reasons": _sorted(reasons),
        "files": totals["files"],
        "families": _sorted(families),
        "sources": {
            summary["source"]: {k: v for k, v in summary.items() if k != "per_file"}
            for summary in summaries
        },
    }


def too_many(quarantined: int, lines: int, limit: float) -> bool:
    """Whether more was refused than `limit`: a whole number is a count, a fraction a share."""
    allowed = limit if limit >= 1 else limit * lines
    return quarantined > allowed


def readable(summary: Mapping[str, Any]) -> str:
    """The summary as a person reads it, with the table of reasons."""
    lines = [
        f"{summary['source']}: {summary['lines']} lines = {summary['rows']} rows "
        f"+ {summary['quarantined']} quarantined, from {summary['episodes']} episodes",
        *(f"  {count:>8}  {family}" for family, count in summary["families"].items()),
    ]
    if summary["episodes_without_metadata"]:
        count = summary["episodes_without_metadata"]
        lines.append(f"  {count} episodes have no readable episode.json; their rows count")
    if summary["reasons"]:
        lines.append("  quarantined:")
        lines += [f"  {count:>8}  {reason}" for reason, count in summary["reasons"].items()]
        lines += _files_with_refused(summary["per_file"])
    return "\n".join(lines)


def _files_with_refused(per_file: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The files that most lines were refused of, worst first."""
    refused = [(file, counts) for file, counts in per_file.items() if counts["quarantined"]]
    refused.sort(key=lambda item: (-item[1]["quarantined"], item[0]))
    lines = [
        f"  {counts['quarantined']:>8}  of {counts['lines']} lines ({counts['rows']} rows): {file}"
        for file, counts in refused[:SHOWN_FILES]
    ]
    if len(refused) > SHOWN_FILES:
        lines.append(f"  {'':>8}  and {len(refused) - SHOWN_FILES} more files (summary.json)")
    return lines


def remove_superseded(folder: Path, names: Sequence[str]) -> int:
    """Deletes shard files that are not among `names`; returns how many."""
    removed = 0
    for kind in KINDS:
        # Also what a killed job left half written: by now every shard is there.
        for path in [*(folder / kind).glob("*.parquet"), *(folder / kind).glob(".*.tmp")]:
            if path.stem not in names:
                path.unlink()
                removed += 1
    return removed


def _counts(column: pa.ChunkedArray) -> dict[str, int]:
    return {entry["values"]: entry["counts"] for entry in column.value_counts().to_pylist()}


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}
