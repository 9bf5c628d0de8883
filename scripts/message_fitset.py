"""Makes the examples that one adapter is trained on of a multi-agent system's messages.

    message_fitset.py --spec spec.json --rows results/splits/rows.parquet \\
        --measures results/base/measures.parquet --data results/ingest/mas \\
        --output-folder results/fitsets/judger
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from adaptermill.errors import UserError, run_command
from adaptermill.fitsets.files import write_fitset
from adaptermill.fitsets.labels import read_labels
from adaptermill.fitsets.lengths import with_lengths
from adaptermill.fitsets.plan import Line, make_plan
from adaptermill.rows import nodes
from adaptermill.trajectories.composition import message_columns, message_composition
from adaptermill.trajectories.judging import judged_rewards
from adaptermill.trajectories.messages import read_messages, seen_through
from adaptermill.trajectories.seats import adapted_seats
from adaptermill.trajectories.select import MessageSelection, select_messages


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="settings of the fit set (JSON)")
    parser.add_argument("--rows", type=Path, required=True, help="index of all rows (Parquet)")
    parser.add_argument("--measures", type=Path, required=True, help="token counts (Parquet)")
    parser.add_argument("--data", type=Path, action="append", required=True, help="ingested source")
    parser.add_argument("--judged", type=Path, help="what the recipe's judge says (Parquet)")
    parser.add_argument("--view", type=Path, help="what view_messages.py wrote")
    parser.add_argument("--output-folder", type=Path, required=True, help="where the set goes")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
    recipe = settings["recipe"]

    rows, measures = pd.read_parquet(arguments.rows), pd.read_parquet(arguments.measures)
    messages = read_messages(arguments.data)
    if recipe["judge"] is not None:
        labels = read_labels(arguments.judged, recipe["judge"], settings["judge_configured"])
        messages = judged_rewards(messages, rows, labels)
    if arguments.view is not None:
        rows, messages, measures = seen_through(arguments.view, rows, messages, measures)
    rows = with_lengths(rows, measures, settings["max_tokens"])
    chosen = select_messages(rows, messages, settings)
    # Consensus training draws its minibatches itself, a node at a time.
    agreeing = "nodes" in settings
    plan = [] if agreeing else planned(chosen, recipe)
    if agreeing:
        chosen.found["nodes"] = counted_nodes(chosen, settings)
    elif not plan and not len(chosen.of_kind("chosen")):
        raise UserError(
            f"adapters.{settings['adapter']}: {recipe['epochs']} epochs of "
            f"{len(chosen.of_kind('ce'))} messages are less than one; raise epochs"
        )
    drawn = {line.row_id for line in plan if line.kind == "anchor"}
    undrawn = (chosen.kept["kind"] == "anchor") & ~chosen.kept["row_id"].isin(drawn)
    chosen.drop(undrawn, "plan", "not_drawn")
    fitset, dropped = message_columns(chosen.kept), chosen.dropped_table()
    made = message_composition(settings, len(rows), fitset, dropped, plan, chosen.found)
    write_fitset(arguments.output_folder, fitset, dropped, plan, made)

    kept = ", ".join(f"{count} {kind}" for kind, count in made["kept"].items())
    print(f"{settings['adapter']}: {kept} messages of {made['input']}")
    print(f"  {made['queries']} queries, {made['plan']['rows']} rows of the plan")
    for name, counts in chosen.found.items():
        print(f"  {name}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))
    filled = chosen.found.get("prescreen", {}).get("filled")
    if filled:
        print(f"  too few queries are hard: {filled} that were right both times fill up")
    for reason, count in made["dropped"].items():
        print(f"  {count:>8}  left out: {reason}")


def planned(chosen: MessageSelection, recipe: dict[str, Any]) -> list[Line]:
    """The order of rows; empty for pairs."""
    return make_plan(
        chosen.contents("ce"),
        chosen.contents("anchor"),
        seed=recipe["seed"],
        epochs=recipe["epochs"],
        anchor_ratio=recipe["anchor_ratio"] if recipe["beta"] else 0,
        batch_rows=recipe["batch_rows"],
        max_steps=recipe["max_steps"],
    )


def counted_nodes(chosen: MessageSelection, settings: dict[str, Any]) -> dict[str, int]:
    """Node -> examples that it is fitted on; `UserError` where a node has too few."""
    making = settings["recipe"]["trajectories"]
    seats = {
        seat
        for own in chosen.systems.values()
        for seat in adapted_seats(own, making["adapt_roles"], making["seats"])
    }
    examples = chosen.kept[chosen.kept["kind"].isin(["ce", "chosen"])]
    places = zip(examples["seat"], examples["query_id"], strict=True)
    fitted = Counter(
        nodes.node_of(int(seat), query, settings["nodes"])
        for seat, query in places
        if not nodes.is_held_out(query, settings["nodes"])
    )
    names = nodes.expected(settings["nodes"], seats)
    thin = nodes.why_thin(fitted, names, settings["nodes"])
    if thin is not None:
        raise UserError(f"adapters.{settings['adapter']}: {thin}")
    return {name: fitted[name] for name in names}


if __name__ == "__main__":
    sys.exit(run_command(main))
