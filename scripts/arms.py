"""Makes the table that compares the arms of consensus training on held-out messages.

    arms.py --spec spec.json --adapters results/adapters/ring results/adapters/gossip \\
        --evaluations results/evaluation/base.parquet results/evaluation/ring.parquet \\
        --data results/ingest/mas --output-folder results/tables

Writes arms.csv, arms.parquet and arms.md. Evaluations on different held-out rows are refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing, write_text
from adaptermill.errors import UserError, run_command
from adaptermill.evaluation import predictions
from adaptermill.evaluation.arms import arms_markdown, arms_table
from adaptermill.evaluation.tables import HeldOut, TableSettings
from adaptermill.trajectories.messages import read_messages


def read_records(folders: list[Path]) -> list[dict]:
    """training.json of every adapter; `UserError` for one of another method."""
    records = []
    for folder in folders:
        try:
            record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(f"{folder} is no finished adapter: it has no training.json") from None
        if record["method"] != "consensus":
            raise UserError(f"{folder} was trained by method {record['method']}, which has no arms")
        records.append(record)
    return records


def write(folder: Path, made: pa.Table) -> None:
    with replacing(folder / "arms.parquet") as temporary:
        pq.write_table(made, temporary)
    frame: pd.DataFrame = made.to_pandas(integer_object_nulls=True)
    with replacing(folder / "arms.csv") as temporary:
        frame.to_csv(temporary, index=False, lineterminator="\n")
    write_text(folder / "arms.md", arms_markdown(made))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, help="bootstrap, seed, … (JSON)")
    parser.add_argument("--adapters", type=Path, nargs="+", required=True, help="their folders")
    parser.add_argument(
        "--evaluations", type=Path, nargs="+", required=True, help="predictions, the base's too"
    )
    parser.add_argument("--data", type=Path, action="append", required=True, help="ingested source")
    parser.add_argument("--output-folder", type=Path, required=True, help="where the table goes")
    arguments = parser.parse_args(argv)
    settings = TableSettings()
    if arguments.spec is not None:
        given = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
        settings = TableSettings(**given)
    files = [predictions.read(path) for path in arguments.evaluations]
    messages = read_messages(arguments.data)
    made = arms_table(read_records(arguments.adapters), files, HeldOut(files, settings), messages)
    write(arguments.output_folder, made)
    print(arms_markdown(made))


if __name__ == "__main__":
    sys.exit(run_command(main))
