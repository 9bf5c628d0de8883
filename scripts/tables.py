"""Makes the tables that people read, or shows the evaluation at a glance.

    tables.py --spec spec.json --evaluations results/evaluation/*.parquet \\
        --output-folder results/tables [--fitsets FILE...] [--training FOLDER...] \\
        [--episodes FILE --leaks FILE] [--ingest-summary FILE]
    tables.py --show results/evaluation/base.parquet results/evaluation/drag.parquet

Each table is written as .csv, .parquet and .md. Evaluations on different held-out rows, or of
different bases, are refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing, write_text
from adaptermill.errors import UserError, run_command
from adaptermill.evaluation import predictions, products
from adaptermill.evaluation.curve import epochs_markdown, epochs_table
from adaptermill.evaluation.own import summary_markdown, summary_table
from adaptermill.evaluation.replicates import replicates_markdown, replicates_table
from adaptermill.evaluation.show import at_a_glance
from adaptermill.evaluation.tables import (
    BASE,
    HeldOut,
    TableSettings,
    comparison_markdown,
    comparison_table,
    evaluation_markdown,
    evaluation_table,
)
from adaptermill.fitsets.composition import learned_families


def write_table(folder: Path, name: str, made: pa.Table, markdown: str) -> None:
    """Writes one table in its three forms."""
    with replacing(folder / f"{name}.parquet") as temporary:
        pq.write_table(made, temporary)
    with replacing(folder / f"{name}.csv") as temporary:
        # Whole numbers stay whole beside absent ones.
        frame = made.to_pandas(integer_object_nulls=True)
        frame.to_csv(temporary, index=False, lineterminator="\n")
    write_text(folder / f"{name}.md", markdown)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing; build it with snakemake {path}") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path} is no JSON: {error}") from None


def read_settings(path: Path | None) -> TableSettings:
    return TableSettings() if path is None else TableSettings(**read_json(path)["settings"])


def families_by_adapter(compositions: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """The families that each adapter learns."""
    return {made["adapter"]: learned_families(made) for made in compositions}


def read_evaluations(
    paths: Sequence[Path], side: str = predictions.VALIDATION
) -> list[predictions.Predictions]:
    found = [predictions.read(path, side) for path in paths]
    computed = {(file.origin.dtype, file.origin.device): file.name for file in found}
    if len(computed) > 1:
        shown = "; ".join(f"{n}: {d} on {v}" for (d, v), n in sorted(computed.items()))
        print(f"note: evaluations were computed in different ways ({shown})", file=sys.stderr)
    return found


def make(arguments: argparse.Namespace) -> None:
    settings = read_settings(arguments.spec)
    folder = arguments.output_folder
    compositions = [read_json(path) for path in arguments.fitsets]
    own = families_by_adapter(compositions)
    by_side = {side: read_evaluations(arguments.evaluations, side) for side in settings.sides}
    files = by_side[predictions.VALIDATION]
    if BASE not in {file.name for file in files}:
        raise UserError(
            "the base's evaluation is missing: give results/evaluation/base.parquet too"
        )
    held_outs = {side: HeldOut(of_side, settings) for side, of_side in by_side.items()}
    for side, of_side in held_outs.items():
        write_held_out(folder, of_side, own if compositions else None, side)
    held_out = held_outs[predictions.VALIDATION]
    replicates = replicates_table(held_out, settings.replicates)
    write_table(folder, "replicates", replicates, replicates_markdown(replicates))
    if compositions:
        epochs = epochs_table(held_out, files, own)
        write_table(folder, "epochs", epochs, epochs_markdown(epochs))
        fitsets = products.fitsets_table(compositions)
        write_table(folder, "fitsets", fitsets, products.fitsets_markdown(compositions))
    if arguments.training:
        records = [read_json(path / "training.json") for path in arguments.training]
        training = products.training_table(records, own, held_out)
        write_table(folder, "training", training, products.training_markdown(training))
    if arguments.episodes:
        leaks = read_json(arguments.leaks) if arguments.leaks else None
        splits = products.splits_table(pd.read_parquet(arguments.episodes), leaks)
        write_table(folder, "splits", splits, products.splits_markdown(splits))
    if arguments.ingest_summary:
        quarantine = products.quarantine_table(read_json(arguments.ingest_summary))
        write_table(folder, "quarantine", quarantine, products.quarantine_markdown(quarantine))
    names = [name for name in held_out.adapters if name != BASE]
    print(f"tables of the base and {', '.join(names) or 'no adapter'} in {folder}")


def write_held_out(
    folder: Path, held_out: HeldOut, own: dict[str, list[str]] | None, side: str
) -> None:
    """The tables that there are of each held-out side; those of the test side are named so."""
    ending = "" if side == predictions.VALIDATION else f"_{side}"
    evaluation, comparison = evaluation_table(held_out), comparison_table(held_out)
    write_table(folder, f"evaluation{ending}", evaluation, evaluation_markdown(evaluation))
    write_table(folder, f"comparison{ending}", comparison, comparison_markdown(comparison))
    if own is not None:
        summary = summary_table(held_out, own)
        write_table(folder, f"summary{ending}", summary, summary_markdown(summary))


def show(arguments: argparse.Namespace) -> None:
    held_out = HeldOut(read_evaluations(arguments.show), read_settings(arguments.spec))
    # results/evaluation/drag.parquet -> results/fitsets/drag/composition.json, where it is there
    listed = [
        path.parent.parent / "fitsets" / path.stem / "composition.json" for path in arguments.show
    ]
    known = arguments.fitsets or [path for path in listed if path.is_file()]
    print(at_a_glance(held_out, families_by_adapter([read_json(path) for path in known])))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, help="bootstrap, seed, tolerance, … (JSON)")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--evaluations", type=Path, nargs="+", help="predictions, the base's too")
    what.add_argument("--show", type=Path, nargs="+", help="print these predictions at a glance")
    parser.add_argument("--output-folder", type=Path, help="where the tables go")
    parser.add_argument(
        "--fitsets", type=Path, nargs="+", default=[], help="composition.json files"
    )
    parser.add_argument("--training", type=Path, nargs="+", default=[], help="adapter folders")
    parser.add_argument("--episodes", type=Path, help="a line per episode, with its side (Parquet)")
    parser.add_argument("--leaks", type=Path, help="the leak report (JSON)")
    parser.add_argument("--ingest-summary", type=Path, help="what came in from all sources (JSON)")
    arguments = parser.parse_args(argv)
    if arguments.show:
        show(arguments)
    elif arguments.output_folder is None:
        parser.error("--evaluations needs --output-folder")
    else:
        make(arguments)


if __name__ == "__main__":
    sys.exit(run_command(main))
