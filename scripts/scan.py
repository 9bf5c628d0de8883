"""Looks at a source's files: which shards they make, and what changed since the last look.

scan.py --spec spec.json --cache hashes --output manifest.json --units units.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from adaptermill.atomic import write_json
from adaptermill.errors import run_command
from adaptermill.hashing import HashCache
from adaptermill.rows.readers import READERS
from adaptermill.rows.scan import scan
from adaptermill.rows.units import write_units


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="settings of the source (JSON)")
    parser.add_argument("--cache", type=Path, required=True, help="known hashes of files")
    parser.add_argument("--output", type=Path, required=True, help="the manifest to write (JSON)")
    parser.add_argument("--units", type=Path, required=True, help="each shard's units (JSON lines)")
    parser.add_argument("--threads", type=int, default=1, help="that hash files (default: 1)")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
    cache = HashCache(arguments.cache, arguments.threads)
    try:
        manifest = scan(settings, cache)
    except BaseException:
        cache.save(forget=False)  # what was read already need not be read again
        raise
    cache.save()
    write_json(arguments.output, write_units(manifest, arguments.units))
    reader = READERS[settings["format"]]
    print(
        f"{manifest['source']}: {manifest['units']} {reader.unit}s, "
        f"{manifest['bytes'] / 1e6:.1f} MB in {len(manifest['shards'])} shards; "
        f"{cache.hashed} of {cache.asked} files were read"
    )
    if manifest["replaced"]:
        print(f"{manifest['replaced']} episodes were replaced by those of a later folder")
    if manifest["folders_without_rows"]:
        print(f"{manifest['folders_without_rows']} folders hold no rows.jsonl and were passed over")


if __name__ == "__main__":
    sys.exit(run_command(main))
