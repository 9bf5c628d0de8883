"""Finished chunks of an evaluation that is running or died, so that it goes on where it stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing, write_json
from adaptermill.evaluation.predictions import SCHEMA

# Rows per chunk; what an interruption can cost.
CHUNK_ROWS = 16


class ChunkFolder:
    """A folder with a Parquet file per finished chunk of rows.

    `identity` is all that decides the chunks' content. Chunks of another identity are removed: the
    folder is working state and never the only copy of anything.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        mark = folder / "identity.json"
        if folder.exists() and not _holds(mark, identity):
            print(f"{folder} holds another evaluation's state; starting anew", flush=True)
            shutil.rmtree(folder)
        if not mark.exists():
            write_json(mark, dict(identity))

    def path(self, number: int) -> Path:
        return self.folder / f"chunk_{number:06}.parquet"

    def read(self, number: int) -> pa.Table | None:
        """The finished chunk, or None. A file that does not open counts as none."""
        try:
            return pq.read_table(self.path(number), schema=SCHEMA)
        except (FileNotFoundError, pa.ArrowInvalid, OSError):
            return None

    def write(self, number: int, lines: Sequence[Mapping[str, Any]]) -> pa.Table:
        table = pa.Table.from_pylist(list(lines), schema=SCHEMA)
        with replacing(self.path(number)) as temporary:
            pq.write_table(table, temporary)
        return table

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _holds(mark: Path, identity: Mapping[str, Any]) -> bool:
    try:
        return json.loads(mark.read_text(encoding="utf-8")) == dict(identity)
    except (FileNotFoundError, json.JSONDecodeError):
        return False
