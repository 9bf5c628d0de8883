"""Makes the report: one HTML file that opens anywhere, and its figures as SVG files.

    report.py --spec spec.json --tables results/tables --evaluations results/evaluation/*.parquet \\
        --adapters results/adapters/* --data results/ingest/main --base results/base/base.json \\
        --output results/report.html --figures results/figures
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from adaptermill import __version__
from adaptermill.atomic import write_text
from adaptermill.errors import UserError, run_command
from adaptermill.evaluation.markdown import count
from adaptermill.evaluation.own import OWN, SEPARATOR
from adaptermill.report import context, costs, figures
from adaptermill.report.consensus import consensus
from adaptermill.report.findings import about_adapters, headline
from adaptermill.report.flow import flow
from adaptermill.report.gallery import gallery
from adaptermill.report.page import heats, render
from adaptermill.report.svg import standalone

TABLES = (
    *("evaluation", "comparison", "summary", "replicates", "epochs"),
    *("fitsets", "training", "splits", "quarantine"),
)


def read_tables(folder: Path, more: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    names = (*TABLES, *more)
    try:
        return {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in names}
    except FileNotFoundError as error:
        raise UserError(
            f"{error.filename} is missing; build it with snakemake results/tables/evaluation.csv"
        ) from None


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The training log of a published adapter; empty for one that has none."""
    path = folder / "train_log.jsonl"
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def own_families(summary: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    return {x["adapter"]: x["families"].split(SEPARATOR) for x in summary if x["part"] == OWN}


def make(arguments: argparse.Namespace) -> None:
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
    agreeing = settings.get("consensus", [])
    more = ["summary_test", "comparison_test"] if "test" in settings["sides"] else []
    tables = read_tables(arguments.tables, [*more, *(["arms"] if agreeing else [])])
    base = json.loads(arguments.base.read_text(encoding="utf-8"))
    records = {path.name: context.read_record(path) for path in arguments.adapters}
    own = own_families(tables["summary"])
    # For the page and, each by itself, for Snakemake's own report.
    drawn = {
        "heatmap": figures.heatmap(tables["comparison"], own),
        "differences": figures.differences(tables["comparison"], own),
        "training": figures.training(
            {p.name: read_log(p) for p in arguments.adapters if p.name not in agreeing}
        ),
        "curve": figures.curve(tables["epochs"]),
        "fitsets": figures.fitsets(tables["fitsets"]),
        "splits": figures.splits(tables["splits"]),
    }
    if agreeing:
        drawn["consensus"] = consensus({name: records[name]["rounds"] for name in agreeing})
    shown = gallery(
        arguments.evaluations,
        arguments.data,
        settings["gallery_rows"],
        settings["seed"],
        settings["tolerance"],
    )
    found = about_adapters(tables["summary"], tables["comparison"])
    tested = []
    if "test" in settings["sides"]:
        tested = about_adapters(tables["summary_test"], tables["comparison_test"])
    made_of = context.origin(arguments.evaluations[0])
    values = {
        "version": __version__,
        "base": context.base(base),
        "counts": {
            "adapters": count(len(arguments.evaluations) - 1, "adapter"),
            "heldout": context.heldout(tables["evaluation"]),
        },
        "headline": headline(found),
        "found": found,
        "tested": tested,
        "has_pooled": any(about.pooled for about in found),
        "has_steps": any(about.steps for about in found),
        "has_drift": any(about.drift for about in found),
        "metrics": heats(tables["evaluation"], tables["comparison"], own),
        "replicates": context.replicates(tables["replicates"]),
        "training": context.training(tables["training"]),
        "arms": context.arms(tables["arms"]) if agreeing else None,
        "dropped": context.dropped(tables["fitsets"]),
        "leaks": [line for line in tables["splits"] if line["part"] == "leaks"],
        "sources": context.sources(tables["quarantine"]),
        "branches": sorted(settings["parents"].items()),
        "facts": context.facts(base, made_of, records),
        "hashes": context.hashes(records),
        "costs": [] if arguments.benchmarks is None else costs.by_rule(arguments.benchmarks),
        "gallery_families": list(dict.fromkeys(step.family for step in shown.steps)),
        "gallery_adapters": [path.stem for path in arguments.evaluations],
    }
    inline = {**drawn, "flow": flow(context.flow_counts(tables, base, records))}
    for name in drawn:
        write_text(arguments.figures / f"{name}.svg", standalone(drawn[name]))
    write_text(arguments.output, render(values, inline, shown))
    size = arguments.output.stat().st_size / 1e6
    print(f"{arguments.output}: {size:.1f} MB, {len(shown.steps)} of {shown.rows} held-out steps")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="seed, tolerance, … (JSON)")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the tables")
    parser.add_argument(
        "--evaluations", type=Path, nargs="+", required=True, help="predictions, the base's first"
    )
    parser.add_argument("--adapters", type=Path, nargs="*", default=[], help="published adapters")
    parser.add_argument("--data", type=Path, action="append", required=True, help="ingested source")
    parser.add_argument("--base", type=Path, required=True, help="the resolved base (base.json)")
    parser.add_argument("--benchmarks", type=Path, help="folder of Snakemake's benchmark files")
    parser.add_argument("--output", type=Path, required=True, help="the page")
    parser.add_argument("--figures", type=Path, required=True, help="folder of the SVG files")
    make(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(run_command(main))
