"""Finds out which base model is meant, and what it is made of.

resolve_base.py --model Qwen/Qwen3.5-4B --hash-cache hashes.parquet --output base.json
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from adaptermill.errors import UserError, run_command
from adaptermill.models.base import BaseRef, load_processor, resolve
from adaptermill.models.encode import Encoder, TemplatePrefixError

PROBE = [{"role": "user", "content": [{"type": "text", "text": "Go."}, {"type": "image"}]}]


def usable(ref: BaseRef) -> Encoder:
    """The base's encoder; `UserError` for a base that no row with a screenshot can be put to."""
    encoder = Encoder(load_processor(ref))
    try:
        encoder.measure(PROBE, '{"action": []}', [(640, 400)])
    except TemplatePrefixError as error:
        raise UserError(f"the base {ref.model} takes no rows: {error}") from None
    return encoder


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
    encoder = usable(ref)
    ref.write(arguments.output)
    kind = "text only, screenshots are left out" if encoder.drops_images else "takes screenshots"
    print(
        f"{ref.model}: {ref.architecture} ({kind}), commit {ref.revision or 'none (a folder)'}, "
        f"identity {ref.identity}, a turn ends with {encoder.end_of_turn}"
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
