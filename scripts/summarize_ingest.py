"""Adds up what came in, stops when too much was refused, and removes superseded shards.

    summarize_ingest.py --spec spec.json --manifest manifest.json --units units.jsonl \\
        --folder results/ingest/main
    summarize_ingest.py --combine results/ingest/*/summary.json --output results/ingest/summary.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from adaptermill.atomic import replacing, write_json
from adaptermill.errors import UserError, run_command
from adaptermill.rows.summary import (
    combine,
    merge_quarantine,
    readable,
    remove_superseded,
    summarize,
    too_many,
)


def summarize_source(folder: Path, manifest_path: Path, units: Path, limit: float) -> None:
    manifest = json.loads(manifest_path.read_text(encoding="utf-8"))
    summary = summarize(manifest, folder)
    print(readable(summary))
    # Outputs of a failed job are deleted; the quarantine is what a person needs then.
    kept = manifest_path.with_name("quarantine.parquet")
    if too_many(summary["quarantined"], summary["lines"], limit):
        with replacing(kept) as temporary:
            merge_quarantine(manifest, units, folder, temporary)
        reasons = ", ".join(f"{reason} {count}" for reason, count in summary["reasons"].items())
        raise UserError(
            f"{summary['quarantined']} of {summary['lines']} lines of source "
            f"{summary['source']!r} are quarantined, more than ingest.max_quarantined ({limit}) "
            f"allows: {reasons}.\nEvery refused line with its reason is in {kept}; mend the files, "
            "or raise ingest.max_quarantined."
        )
    kept.unlink(missing_ok=True)
    with replacing(folder / "quarantine.parquet") as temporary:
        merge_quarantine(manifest, units, folder, temporary)
    write_json(folder / "summary.json", summary)
    removed = remove_superseded(folder, summary["shards"])
    if removed:
        print(f"removed {removed} files of superseded shards")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, help="settings: max_quarantined (JSON)")
    parser.add_argument("--manifest", type=Path, help="what scan.py wrote")
    parser.add_argument("--units", type=Path, help="what it wrote beside it")
    parser.add_argument("--folder", type=Path, help="the ingested source")
    parser.add_argument("--combine", type=Path, nargs="+", help="summaries of all sources")
    parser.add_argument("--output", type=Path, help="where the combined summary goes")
    arguments = parser.parse_args(argv)
    if arguments.combine:
        if arguments.output is None:
            parser.error("--combine needs --output")
        summaries = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.combine]
        combined = combine(summaries)
        write_json(arguments.output, combined)
        print(
            f"all sources: {combined['lines']} lines = {combined['rows']} rows "
            f"+ {combined['quarantined']} quarantined"
        )
        return
    if not (arguments.spec and arguments.manifest and arguments.units and arguments.folder):
        parser.error("give --spec, --manifest, --units and --folder, or --combine and --output")
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
    limit = settings["max_quarantined"]
    summarize_source(arguments.folder, arguments.manifest, arguments.units, limit)


if __name__ == "__main__":
    sys.exit(run_command(main))
