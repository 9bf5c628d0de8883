"""Draws example episodes of all seven families into a replay root.

    python scripts/example_source.py --episodes 400 --seed 0 --output data/example
    python scripts/example_source.py --episodes 100000 --image-kb 300 --jobs 16 --output big

The same seed gives the same files, and a larger number only adds episodes. Run again, it writes
what is missing and removes what is too much.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from adaptermill.atomic import write_json
from adaptermill.errors import UserError, run_command
from adaptermill.example.write import write_episodes


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the replay root to fill")
    parser.add_argument("--episodes", type=int, default=400, help="how many (default: 400)")
    parser.add_argument("--seed", type=int, default=0, help="which set of episodes (default: 0)")
    parser.add_argument("--spec", type=Path, help="JSON with both under `settings`, instead")
    parser.add_argument(
        "--image-kb", type=int, default=0, help="fill every screenshot's file up to this size"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes to draw with (default: 1)")
    parser.add_argument("--summary", type=Path, help="where to write what was made, as JSON")
    arguments = parser.parse_args(argv)
    episodes, seed = arguments.episodes, arguments.seed
    if arguments.spec is not None:
        settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
        episodes, seed = settings["episodes"], settings["seed"]
    if episodes < 1 or arguments.jobs < 1 or arguments.image_kb < 0:
        raise UserError("--episodes and --jobs are at least 1, --image-kb at least 0")

    begun = time.perf_counter()
    made = write_episodes(
        arguments.output, episodes, seed, arguments.jobs, arguments.image_kb * 1000
    )
    seconds = time.perf_counter() - begun
    print(
        f"{arguments.output}: {episodes} episodes ({made.written} written, {made.kept} as they "
        f"were, {made.removed} removed), {sum(made.rows.values())} rows, "
        f"{episodes / seconds:.0f} episodes/s"
    )
    if arguments.summary is not None:
        rows = dict(sorted(made.rows.items()))
        write_json(arguments.summary, {"episodes": episodes, "seed": seed, "rows": rows})


if __name__ == "__main__":
    sys.exit(run_command(main))
