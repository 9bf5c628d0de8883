"""Draws rollouts of four agents on questions of arithmetic into a folder, as one run.

    python scripts/example_trajectories.py --queries 60 --rollouts 4 --seed 0 --output data/rollouts

The same seed gives the same rollouts, and larger numbers only add to them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from adaptermill.atomic import replacing, write_json
from adaptermill.errors import UserError, run_command
from adaptermill.example.arithmetic import draw_rollouts

_RUN = "example_run_"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for the run's folder")
    parser.add_argument("--queries", type=int, default=60, help="how many (default: 60)")
    parser.add_argument("--rollouts", type=int, default=4, help="of each query (default: 4)")
    parser.add_argument("--seed", type=int, default=0, help="which set of queries (default: 0)")
    parser.add_argument("--spec", type=Path, help="JSON with all three under `settings`, instead")
    parser.add_argument("--jobs", type=int, default=1, help="not needed: one process is enough")
    parser.add_argument("--summary", type=Path, help="where to write what was made, as JSON")
    arguments = parser.parse_args(argv)
    queries, rollouts, seed = arguments.queries, arguments.rollouts, arguments.seed
    if arguments.spec is not None:
        settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
        queries, rollouts, seed = (settings[name] for name in ("queries", "rollouts", "seed"))
    if queries < 1 or rollouts < 1:
        raise UserError("--queries and --rollouts are at least 1")

    run = arguments.output / f"{_RUN}{seed}"
    for other in arguments.output.glob(f"{_RUN}*"):  # of another seed
        if other != run:
            shutil.rmtree(other)
    right = 0
    with (
        replacing(run / "rollouts.jsonl") as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        for line in draw_rollouts(seed, queries, rollouts):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            right += line["reward"] == 1.0
    total = queries * rollouts
    print(f"{run}: {total} rollouts of {queries} queries, {right} of them right")
    if arguments.summary is not None:
        made = {"queries": queries, "rollouts": total, "right": right, "seed": seed}
        write_json(arguments.summary, made)


if __name__ == "__main__":
    sys.exit(run_command(main))
