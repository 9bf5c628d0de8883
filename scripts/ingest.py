"""Turns one shard's units into Parquet: rows, screenshots, and what was quarantined.

    ingest.py --spec spec.json --units units.jsonl --shard s01-0f3a5b6c7d8e \\
        --rows rows.parquet --images images.parquet --quarantine quarantine.parquet
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from adaptermill.atomic import replacing
from adaptermill.errors import run_command
from adaptermill.rows.ingest import ShardWriter
from adaptermill.rows.readers.reader import Unit
from adaptermill.rows.units import read_units


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="settings of the source (JSON)")
    parser.add_argument("--units", type=Path, required=True, help="what scan.py wrote")
    parser.add_argument("--shard", required=True, help="name of the shard")
    parser.add_argument("--rows", type=Path, required=True, help="rows to write (Parquet)")
    parser.add_argument("--images", type=Path, required=True, help="screenshots to write (Parquet)")
    parser.add_argument("--quarantine", type=Path, required=True, help="refused lines (Parquet)")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
    units = read_units(arguments.units, arguments.shard)
    with (
        replacing(arguments.rows) as rows,
        replacing(arguments.images) as images,
        replacing(arguments.quarantine) as quarantine,
        ShardWriter(settings, rows, images, quarantine) as writer,
    ):
        for unit in units:
            writer.add_unit(Unit.from_json(unit), unit["images"])
    totals = writer.totals()
    print(
        f"{arguments.shard}: {totals.lines} lines, {totals.rows} rows, "
        f"{totals.quarantined} quarantined, {len(writer.written_images)} screenshots"
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
