"""Measures one shard's rows in the base's tokens.

measure.py --rows rows.parquet --images images.parquet --base base.json --output out.parquet
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pyarrow.parquet as pq

from adaptermill.atomic import replacing
from adaptermill.errors import run_command
from adaptermill.measure import measure_shard
from adaptermill.models.base import BaseRef, load_processor
from adaptermill.models.encode import Encoder


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, required=True, help="the shard's rows (Parquet)")
    parser.add_argument("--images", type=Path, required=True, help="its screenshots (Parquet)")
    parser.add_argument("--base", type=Path, required=True, help="the resolved base (base.json)")
    parser.add_argument("--output", type=Path, required=True, help="token counts (Parquet)")
    arguments = parser.parse_args(argv)
    encoder = Encoder(load_processor(BaseRef.read(arguments.base)))
    if encoder.drops_images:
        print("the base is text only: screenshots are left out of the prompts")
    table = measure_shard(arguments.rows, arguments.images, encoder)
    with replacing(arguments.output) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    print(f"{arguments.rows.stem}: {table.num_rows} rows measured")


if __name__ == "__main__":
    sys.exit(run_command(main))
