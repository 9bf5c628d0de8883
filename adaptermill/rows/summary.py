"""What came in: counts that add up, per source and in all, and the limit on refused lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.rows.schema import QUARANTINE_SCHEMA

KINDS = ("shards", "images", "quarantine")


def summarize(manifest: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], pa.Table]:
    """The summary of one ingested source, and its quarantine table (sorted by file and line).

    `lines` (not blank) is always `rows` plus `quarantined`, in each file and in sum.
    """
    names = [shard["name"] for shard in manifest["shards"]]
    files: dict[str, dict[str, int]] = {}
    without_metadata = 0
    tables = []
    for name in names:
        table = pq.read_table(folder / "quarantine" / f"{name}.parquet")
        facts = json.loads(table.schema.metadata[b"adaptermill"])
        files.update(facts["files"])
        without_metadata += facts["episodes_without_metadata"]
        tables.append(table.replace_schema_metadata(None))
    quarantine = pa.concat_tables(tables) if tables else QUARANTINE_SCHEMA.empty_table()
    quarantine = quarantine.sort_by([("file", "ascending"), ("line", "ascending")])
    totals: Counter[str] = Counter()
    for counts in files.values():
        totals.update(counts)
    families: Counter[str] = Counter()
    variants: Counter[str] = Counter()
    for name in names:
        columns = pq.read_table(
            folder / "shards" / f"{name}.parquet", columns=["family", "variant"]
        )
        families.update(columns["family"].to_pylist())
        variants.update(columns["variant"].to_pylist())
    images = [
        sha256
        for name in names
        for sha256 in pq.read_table(folder / "images" / f"{name}.parquet", columns=["sha256"])[
            "sha256"
        ].to_pylist()
    ]
    summary = {
        "source": manifest["source"],
        "lines": totals["lines"],
        "rows": totals["rows"],
        "quarantined": totals["quarantined"],
        "reasons": _sorted(Counter(quarantine["reason"].to_pylist())),
        "files": len(files),
        "episodes": manifest["episodes"],
        "replaced": manifest["replaced"],
        "folders_without_rows": manifest["folders_without_rows"],
        "episodes_without_metadata": without_metadata,
        "families": _sorted(families),
        "variants": _sorted(variants),
        "images": len(set(images)),
        "images_repeated_across_shards": len(images) - len(set(images)),
        "bytes": manifest["bytes"],
        "shards": names,
    }
    assert (
        summary["lines"]
        == summary["rows"] + summary["quarantined"]
        == sum(counts["rows"] + counts["quarantined"] for counts in files.values())
    ), "lines in are not rows plus quarantined"
    return summary, quarantine


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
        "sources": {summary["source"]: dict(summary) for summary in summaries},
    }


def too_many(quarantined: int, lines: int, limit: float) -> bool:
    """Whether more was refused than `limit`: a whole number is a count, a fraction a share."""
    allowed = limit if isinstance(limit, int) or limit > 1 else limit * lines
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
    return "\n".join(lines)


def remove_superseded(folder: Path, names: Sequence[str]) -> int:
    """Deletes shard files that are not among `names`; returns how many."""
    removed = 0
    for kind in KINDS:
        for path in (folder / kind).glob("*.parquet"):
            if path.stem not in names:
                path.unlink()
                removed += 1
    return removed


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}
