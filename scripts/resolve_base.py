"""Finds out which base model is meant, and what it is made of.

resolve_base.py --model Qwen/Qwen3.5-4B --hash-cache hashes.parquet --output base.json
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from adaptermill.errors import run_command
from adaptermill.models.base import load_processor, resolve
from adaptermill.models.encode import Encoder


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="hub id, local folder, or `example`")
    parser.add_argument("--revision", help="commit, tag or branch on the hub")
    parser.add_argument("--folder", help="where the example base lies")
    parser.add_argument("--hash-cache", type=Path, required=True, help="known hashes of files")
    parser.add_argument("--output", type=Path, required=True, help="the resolved base (base.json)")
    arguments = parser.parse_args(argv)
    ref = resolve(arguments.model, arguments.revision, arguments.folder, arguments.hash_cache)
    encoder = Encoder(load_processor(ref))  # a base without tokenizer or template fails here
    ref.write(arguments.output)
    kind = "text only, screenshots are left out" if encoder.drops_images else "takes screenshots"
    print(
        f"{ref.model}: {ref.architecture} ({kind}), commit {ref.revision or 'none (a folder)'}, "
        f"identity {ref.identity}, a turn ends with {encoder.end_of_turn}"
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
