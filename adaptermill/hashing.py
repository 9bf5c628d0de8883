"""SHA-256 of files, read again only when a file's size or modification time changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing

_BLOCK = 1 << 20
_STATE = b"adaptermill"
# Size, mtime and content of a file that is not there.
MISSING = (-1, -1, "missing")


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
    """What is known of files' contents; read again only when a file's size or mtime changed.

    Of most files that is their SHA-256; `remembered` keeps any other text. `state` is a text about
    all of them together.
    """

    SCHEMA = pa.schema(
        [
            ("path", pa.string()),
            ("size", pa.int64()),
            ("mtime_ns", pa.int64()),
            ("found", pa.string()),
        ]
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, tuple[int, int, str]] = {}
        self.used: dict[str, tuple[int, int, str]] = {}
        self.hashed = 0
        self.state = ""
        table = pq.read_table(path) if path.is_file() else None
        if table is not None and table.schema.equals(self.SCHEMA):
            self.state = ((table.schema.metadata or {}).get(_STATE) or b"").decode()
            columns = table.to_pydict()
            rows = zip(columns["size"], columns["mtime_ns"], columns["found"], strict=True)
            self.known = dict(zip(columns["path"], rows, strict=True))

    def sha256(self, file: FileStat) -> str:
        """The file's SHA-256 (hex); raises OSError where it cannot be read."""
        return self.remembered(file, _sha256)

    def remembered(self, file: FileStat, read: Callable[[str], str], kind: str = "") -> str:
        """What `read(path)` says of the file; `kind` keeps several of its sayings apart."""
        # A path that is not UTF-8 must be storable too.
        name = kind + os.fsencode(file.path).decode("utf-8", "backslashreplace")
        known = self.known.get(name)
        if known is None or known[:2] != (file.size, file.mtime_ns):
            known = (file.size, file.mtime_ns, read(file.path))
            self.hashed += 1
        self.used[name] = known
        return known[2]

    def missing(self, path: str) -> None:
        """Notes that there is no such file, so that its coming is noticed."""
        self.used[os.fsencode(path).decode("utf-8", "backslashreplace")] = MISSING

    def save(self, *, forget: bool = True) -> None:
        """Keeps what was asked for. Other files are forgotten, unless the work was cut short."""
        kept = self.used if forget else {**self.known, **self.used}
        paths = sorted(kept)
        columns = {
            "path": paths,
            "size": [kept[path][0] for path in paths],
            "mtime_ns": [kept[path][1] for path in paths],
            "found": [kept[path][2] for path in paths],
        }
        schema = self.SCHEMA.with_metadata({_STATE: self.state.encode()})
        with replacing(self.path) as temporary:
            pq.write_table(pa.table(columns, schema=schema), temporary)


def _sha256(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as handle:
        while block := handle.read(_BLOCK):
            found.update(block)
    return found.hexdigest()
