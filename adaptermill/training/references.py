"""Reference log-probabilities: computed once per row and reference, and kept on disk.

    <store>/<key>/reference.json      what the values of this folder belong to
    <store>/<key>/<pack>.parquet      content_hash, logps: list<float32>; never changed once written

A value is a function of the row and of what the key covers, never of the batch it was asked for in,
so epochs, processes and adapters share it, and computing it again gives the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from adaptermill.atomic import replacing, write_json
from adaptermill.provenance import key

SCHEMA = pa.schema([("content_hash", pa.string()), ("logps", pa.list_(pa.float32()))])
# Values that are kept in memory only; a process killed computes these again.
_UNWRITTEN = 64


class References:
    """log p of rows' target tokens under the reference that `identity` describes."""

    def __init__(self, store: Path, identity: Mapping[str, Any]) -> None:
        self.folder = store / key(**identity)
        self.identity = dict(identity)
        self._known: dict[str, torch.Tensor] = {}
        self._read: set[str] = set()
        self._waiting: dict[str, torch.Tensor] = {}

    def get(self, content: str, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """float32 [T] on the CPU for the row of that content hash; computed where nobody has."""
        if content not in self._known:
            self._read_new()
        if content not in self._known:
            self._known[content] = self._waiting[content] = compute().float().cpu()
            if len(self._waiting) >= _UNWRITTEN:
                self.write()
        return self._known[content]

    def _read_new(self) -> None:
        """Reads the packs that this and other processes and jobs have written since."""
        for path in sorted(self.folder.glob("*.parquet")):
            if path.name in self._read:
                continue
            self._read.add(path.name)
            try:
                columns = pq.read_table(path, schema=SCHEMA).to_pydict()
            except (OSError, pa.ArrowException) as error:
                print(f"{path} cannot be read ({error}); its values are computed again", flush=True)
                continue
            for content, logps in zip(columns["content_hash"], columns["logps"], strict=True):
                self._known.setdefault(content, torch.tensor(logps, dtype=torch.float32))

    def write(self) -> None:
        """Writes what was computed since the last time, as one pack named by the rows in it."""
        if not self._waiting:
            return
        contents = sorted(self._waiting)
        name = hashlib.sha256("\n".join(contents).encode()).hexdigest()[:16]
        values = [self._waiting[content].numpy() for content in contents]
        table = pa.table({"content_hash": contents, "logps": values}, schema=SCHEMA)
        if not (self.folder / "reference.json").is_file():
            write_json(self.folder / "reference.json", self.identity)
        with replacing(self.folder / f"{name}.parquet") as temporary:
            pq.write_table(table, temporary, compression="zstd")
        self._read.add(f"{name}.parquet")
        self._waiting.clear()
