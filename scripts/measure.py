"""Measures one shard's rows in the base's tokens.

measure.py --rows rows.parquet --images images.parquet --base base.json --output out.parquet

A shard whose rows were measured before under another name (a line was quarantined, an episode came
and went) is copied from there: everything in the output's folder is measured alike.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing
from adaptermill.digests import table_hash
from adaptermill.errors import run_command
from adaptermill.measurements import rows_of, with_rows


def measured_before(output: Path, rows: str) -> Path | None:
    """A file for the same leaf of the same source, in the folder of `output`, with these rows."""
    leaf = output.stem.rpartition("-")[0]
    for path in sorted(output.parent.glob(f"{leaf}-*.parquet")):
        if path != output and rows_of(pq.read_schema(path)) == rows:
            return path
    return None


def measure(rows: Path, images: Path, base: Path) -> pa.Table:
    # Imported here: what need not be measured again need not wait for torch.
    from adaptermill.measure import measure_shard
    from adaptermill.models.base import BaseRef, load_processor
    from adaptermill.models.encode import Encoder

    encoder = Encoder(load_processor(BaseRef.read(base)))
    if encoder.drops_images:
        print("the base is text only: screenshots are left out of the prompts")
    return measure_shard(rows, images, encoder)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, required=True, help="the shard's rows (Parquet)")
    parser.add_argument("--images", type=Path, required=True, help="its screenshots (Parquet)")
    parser.add_argument("--base", type=Path, required=True, help="the resolved base (base.json)")
    parser.add_argument("--output", type=Path, required=True, help="token counts (Parquet)")
    arguments = parser.parse_args(argv)
    rows = table_hash(pq.read_table(arguments.rows, columns=["row_id", "content_hash"]))
    known = measured_before(arguments.output, rows)
    if known is not None:
        with replacing(arguments.output) as temporary:
            shutil.copyfile(known, temporary)
        print(f"{arguments.rows.stem}: rows as in {known.stem}")
        return
    table = with_rows(measure(arguments.rows, arguments.images, arguments.base), rows)
    with replacing(arguments.output) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    print(f"{arguments.rows.stem}: {table.num_rows} rows measured")


if __name__ == "__main__":
    sys.exit(run_command(main))
