"""Chooses what one adapter is trained on, and in what order.

    fitset.py --spec spec.json --rows results/splits/rows.parquet \\
        --measures results/base/measures.parquet --output-folder results/fitsets/drag \\
        [--data results/ingest/main …]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from adaptermill.errors import UserError, run_command
from adaptermill.fitsets.composition import composition
from adaptermill.fitsets.files import write_fitset
from adaptermill.fitsets.labels import read_labels
from adaptermill.fitsets.lengths import with_lengths
from adaptermill.fitsets.plan import make_plan
from adaptermill.fitsets.select import Sign, fitset_columns, select
from adaptermill.rows.dataset import shard_paths
from adaptermill.signatures import Signed, sign_shards


def signer(near: dict[str, Any] | None, arguments: argparse.Namespace) -> Sign:
    """Signs the rows that selection asks for, with the settings of `dedup.near`."""

    def sign(row_ids: list[str]) -> Signed:
        paths = [path for folder in arguments.data for path in shard_paths(folder, "shards")]
        how = {"ngram": near["ngram"], "permutations": near["permutations"]}
        cache, jobs = arguments.signatures, arguments.jobs
        return sign_shards(paths, cache=cache, processes=jobs, **how).of(row_ids)

    return sign


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="settings of the fit set (JSON)")
    parser.add_argument("--rows", type=Path, required=True, help="index of all rows (Parquet)")
    parser.add_argument("--measures", type=Path, required=True, help="token counts (Parquet)")
    parser.add_argument("--judged", type=Path, help="what the recipe's judge says (Parquet)")
    parser.add_argument("--output-folder", type=Path, required=True, help="where the set goes")
    parser.add_argument(
        "--data", type=Path, action="append", default=[], help="ingested source (for dedup.near)"
    )
    parser.add_argument("--signatures", type=Path, help="folder of rows' signatures, by shard")
    parser.add_argument("--jobs", type=int, default=1, help="processes that sign rows")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
    recipe = settings["recipe"]

    measures = pd.read_parquet(arguments.measures)
    rows = with_lengths(pd.read_parquet(arguments.rows), measures, settings["max_tokens"])
    labels = None
    if recipe["judge"] is not None:
        labels = read_labels(arguments.judged, recipe["judge"], settings["judge_configured"])
    sign = signer(recipe["dedup"]["near"], arguments)
    chosen = select(rows, settings, labels, sign=sign)
    plan = make_plan(
        chosen.contents("ce"),
        chosen.contents("anchor"),
        seed=recipe["seed"],
        epochs=recipe["epochs"],
        anchor_ratio=recipe["anchor_ratio"] if recipe["beta"] else 0,
        batch_rows=recipe["batch_rows"],
        max_steps=recipe["max_steps"],
    )
    if not plan:
        raise UserError(
            f"adapters.{settings['adapter']}: {recipe['epochs']} epochs of "
            f"{len(chosen.of_kind('ce'))} rows are less than one row; raise epochs"
        )
    drawn = {line.row_id for line in plan if line.kind == "anchor"}
    undrawn = (chosen.kept["kind"] == "anchor") & ~chosen.kept["row_id"].isin(drawn)
    chosen.drop(undrawn, "plan", "not_drawn")
    fitset = fitset_columns(chosen, sorted(drawn))
    dropped = chosen.dropped_table()
    made = composition(settings["adapter"], len(rows), fitset, dropped, plan, recipe["batch_rows"])

    write_fitset(arguments.output_folder, fitset, dropped, plan, made)
    kept = ", ".join(f"{count} {kind}" for kind, count in made["kept"].items())
    print(
        f"{settings['adapter']}: {kept} rows of {made['input']}; {made['plan']['rows']} in "
        f"{made['plan']['steps']} steps"
    )
    if recipe["beta"] and settings["anchor_families"] and "anchor" not in made["kept"]:
        print("  no anchor row: the anchor families have no row that can be trained on")
    if "judge" in made:
        said = ", ".join(f"{count} {verdict}" for verdict, count in made["judge"]["kept"].items())
        print(f"  of those kept, the judge {recipe['judge']} said: {said}")
    for reason, count in made["dropped"].items():
        print(f"  {count:>8}  left out: {reason}")


if __name__ == "__main__":
    sys.exit(run_command(main))
