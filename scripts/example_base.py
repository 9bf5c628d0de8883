"""Trains the example base: a tiny Qwen3.5 vision-language model, in a minute or two on two cores.

example_base.py --output results/base/example
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from adaptermill.atomic import replacing_folder
from adaptermill.errors import UserError, run_command
from adaptermill.example.base import STEPS, build_base


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the base folder to write")
    parser.add_argument("--seed", type=int, default=0, help="of weights and rows (default: 0)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"default: {STEPS}")
    arguments = parser.parse_args(argv)
    if arguments.steps < 1:
        raise UserError("--steps is at least 1")
    begun = time.monotonic()
    with replacing_folder(arguments.output) as temporary:
        build_base(temporary, arguments.seed, arguments.steps, lambda line: print(line, flush=True))
    print(f"{arguments.output}: trained in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    sys.exit(run_command(main))
