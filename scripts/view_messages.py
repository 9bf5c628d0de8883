"""Writes a source's messages as one adapter fits them: another prompt, or the visible text alone.

    view_messages.py --spec spec.json --base results/base/base.json \\
        --data results/ingest/mas --output-folder results/fitsets/judger/messages
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from adaptermill.errors import run_command
from adaptermill.models.base import BaseRef, load_processor
from adaptermill.models.encode import Encoder
from adaptermill.trajectories.rewrite import rewrite
from adaptermill.trajectories.view import View


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="prompt and span (JSON)")
    parser.add_argument("--base", type=Path, required=True, help="the resolved base (base.json)")
    parser.add_argument("--data", type=Path, action="append", required=True, help="ingested source")
    parser.add_argument("--output-folder", type=Path, required=True, help="where the rows go")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
    encoder = Encoder(load_processor(BaseRef.read(arguments.base)))
    view = View.from_settings(settings)
    made = rewrite(arguments.data, view, encoder, arguments.output_folder)
    print(f"{made['rows']} messages, {made['no_visible_text']} without visible text")


if __name__ == "__main__":
    sys.exit(run_command(main))
