"""The units of every shard, as the scan leaves them for the shards' jobs: a line a shard.

A job reads one line, however many shards there are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adaptermill.atomic import replacing
from adaptermill.errors import UserError
from adaptermill.rows.schema import dump


def write_units(manifest: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Writes the units of a manifest's shards; returns the manifest with their number instead.

    Beside each unit stand its `images`: size, mtime in ns and SHA-256 by name.
    """
    shards = []
    with replacing(path) as temporary, open(temporary, "wb") as file:
        for shard in manifest["shards"]:
            units = ",".join(content.as_json() for content in shard["contents"])
            file.write(f'{dump({"name": shard["name"]})[:-1]},"units":[{units}]}}\n'.encode())
            shards.append(
                {
                    "name": shard["name"],
                    "bytes": shard["bytes"],
                    "units": len(shard["contents"]),
                }
            )
    return {**manifest, "shards": shards}


def read_units(path: Path, shard: str) -> list[dict[str, Any]]:
    """The units of one shard; `UserError` when it is not among them."""
    begin = dump({"name": shard})[:-1].encode() + b","
    with open(path, "rb") as file:
        for line in file:
            if line.startswith(begin):
                return json.loads(line)["units"]
    raise UserError(f"{path} lists no shard {shard}; the source has changed: start the build again")
