"""Turns an sft fit set of messages into an rsft or a dpo one, without collecting again.

    convert_fitset.py --fitset results/fitsets/all_seats --data results/ingest/mas --to dpo \\
        --output-folder results/pairs/all_seats

A fit set with a folder `messages` of its own (another prompt, or the visible text alone) wants that
folder as its first --data.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from adaptermill.errors import run_command
from adaptermill.fitsets.files import write_fitset
from adaptermill.trajectories.composition import message_columns, message_composition
from adaptermill.trajectories.convert import convert, read_examples


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fitset", type=Path, required=True, help="folder of the sft fit set")
    parser.add_argument("--data", type=Path, action="append", required=True, help="ingested source")
    parser.add_argument("--to", choices=["rsft", "dpo"], required=True, help="what it becomes")
    parser.add_argument("--output-folder", type=Path, required=True, help="where the set goes")
    parser.add_argument("--tau", type=float, default=1.0, help="rsft: least reward (default: 1)")
    parser.add_argument("--max-pairs", type=int, default=4, help="dpo: per query and seat")
    parser.add_argument("--pair-prompt", choices=["chosen", "same_only"], default="chosen")
    parser.add_argument("--cap", type=int, default=3, help="dpo: pairs with one chosen text")
    parser.add_argument("--seed", type=int, default=0, help="dpo: which pairs are drawn")
    arguments = parser.parse_args(argv)
    before, examples = read_examples(arguments.fitset, arguments.data)
    making = {
        "examples": arguments.to,
        "tau": arguments.tau,
        "max_pairs": arguments.max_pairs,
        "pair_prompt": arguments.pair_prompt,
        "dedup": {"key": "target", "cap": arguments.cap},
    }
    chosen, found = convert(examples, arguments.to, making, arguments.seed)
    fitset, dropped = message_columns(chosen.kept), chosen.dropped_table()
    settings = {
        "adapter": before["adapter"],
        "recipe": {"batch_rows": 1, "trajectories": making},
    }
    made = message_composition(settings, len(examples), fitset, dropped, [], found)
    made.pop("plan")  # what trains on the set decides in which order
    write_fitset(arguments.output_folder, fitset, dropped, None, made)
    kept = ", ".join(f"{count} {kind}" for kind, count in made["kept"].items())
    print(f"{before['adapter']} as {arguments.to}: {kept} messages of {made['input']}")
    for reason, count in made["dropped"].items():
        print(f"  {count:>8}  left out: {reason}")


if __name__ == "__main__":
    sys.exit(run_command(main))
