"""SHA-256 of files, read again only when a file's size or modification time changed."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing

_BLOCK = 1 << 20


@dataclass(frozen=True)
class FileStat:
    """A file as the file system describes it; `name` is its path below what is looked at."""

    name: str
    path: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str | os.PathLike) -> FileStat:
        status = os.stat(path)
        return cls(Path(path).name, str(path), status.st_size, status.st_mtime_ns)


class HashCache:
    """SHA-256 of files, read again only when a file's size or mtime changed."""

    SCHEMA = pa.schema(
        [
            ("path", pa.string()),
            ("size", pa.int64()),
            ("mtime_ns", pa.int64()),
            ("sha256", pa.string()),
        ]
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, tuple[int, int, str]] = {}
        self.used: dict[str, tuple[int, int, str]] = {}
        self.hashed = 0
        if path.is_file():
            columns = pq.read_table(path).to_pydict()
            rows = zip(columns["size"], columns["mtime_ns"], columns["sha256"], strict=True)
            self.known = dict(zip(columns["path"], rows, strict=True))

    def sha256(self, file: FileStat) -> str:
        # A path that is not UTF-8 must be storable too.
        name = os.fsencode(file.path).decode("utf-8", "backslashreplace")
        known = self.known.get(name)
        if known is None or known[:2] != (file.size, file.mtime_ns):
            known = (file.size, file.mtime_ns, _sha256(file.path))
            self.hashed += 1
        self.used[name] = known
        return known[2]

    def save(self, *, forget: bool = True) -> None:
        """Keeps what was asked for. Other files are forgotten, unless the work was cut short."""
        kept = self.used if forget else {**self.known, **self.used}
        paths = sorted(kept)
        columns = {
            "path": paths,
            "size": [kept[path][0] for path in paths],
            "mtime_ns": [kept[path][1] for path in paths],
            "sha256": [kept[path][2] for path in paths],
        }
        with replacing(self.path) as temporary:
            pq.write_table(pa.table(columns, schema=self.SCHEMA), temporary)


def _sha256(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as handle:
        while block := handle.read(_BLOCK):
            found.update(block)
    return found.hexdigest()
