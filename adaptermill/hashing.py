"""SHA-256 of files, read again only when a file's size or modification time changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing

_BLOCK = 1 << 20
_STATE = b"adaptermill"
# Size, mtime and content of a file that is not there.
MISSING = (-1, -1, "missing")
# Records are kept as Python objects until there are so many; in Arrow they take a third.
_PENDING = 20_000
_RECORD = ("size", "mtime_ns", "found")

Record = tuple[int, int, str]


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
    all of them together. Millions of files fit: a record takes some 200 bytes.
    """

    # `key` is the first 8 bytes of the path's BLAKE2b.
    SCHEMA = pa.schema(
        [
            ("key", pa.uint64()),
            ("path", pa.string()),
            ("size", pa.int64()),
            ("mtime_ns", pa.int64()),
            ("found", pa.string()),
        ]
    )

    def __init__(self, path: Path, threads: int = 1) -> None:
        self.path = path
        self.hashed = 0
        self.asked = 0
        self.state = ""
        self._known = self.SCHEMA.empty_table()
        file = pq.ParquetFile(path) if path.is_file() else None
        if file is not None and file.schema_arrow.equals(self.SCHEMA):
            # Row group by row group: reading all at once takes three times the memory.
            groups = [file.read_row_group(k, use_threads=False) for k in range(file.num_row_groups)]
            self._known = pa.concat_tables([self._known, *groups])
            self.state = ((file.schema_arrow.metadata or {}).get(_STATE) or b"").decode()
        keys = self._known["key"].to_numpy()
        self._order = np.argsort(keys)
        self._keys = keys[self._order]
        self._pending: dict[str, Record] = {}
        self._before: dict[str, Record] = {}
        self._used: list[pa.Table] = []
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __len__(self) -> int:
        """How many files were known at first."""
        return len(self._keys)

    def records(self) -> Iterator[tuple[str, Record]]:
        """Path and record of every file that was known at first."""
        for batch in self._known.select(["path", "size", "mtime_ns", "found"]).to_batches(10_000):
            for path, *record in zip(*(column.to_pylist() for column in batch), strict=True):
                yield path, tuple(record)

    def sha256(self, file: FileStat) -> str:
        """The file's SHA-256 (hex); raises OSError where it cannot be read."""
        return self.remembered(file, _sha256)

    def remembered(self, file: FileStat, read: Callable[[str], str], kind: str = "") -> str:
        """What `read(path)` says of the file; `kind` keeps several of its sayings apart."""
        name = kind + _utf8(file.path)
        record = self._find(name)
        if record is None or record[:2] != (file.size, file.mtime_ns):
            record = (file.size, file.mtime_ns, read(file.path))
            self.hashed += 1
        self.asked += 1
        self._add(name, record)
        return record[2]

    def read_ahead(self, files: Sequence[FileStat]) -> None:
        """Hashes those of the files that are not known, with as many threads as there are."""
        if self._pool is None:
            return
        new = {}
        for file in files:
            record = self._find(_utf8(file.path))
            if record is None or record[:2] != (file.size, file.mtime_ns):
                new[file.path] = file
        found = self._pool.map(_sha256_or_none, new)
        for file, sha256 in zip(new.values(), found, strict=True):
            if sha256 is not None:
                self.hashed += 1
                self._add(_utf8(file.path), (file.size, file.mtime_ns, sha256))

    def missing(self, path: str) -> None:
        """Notes that there is no such file, so that its coming is noticed."""
        self._add(_utf8(path), MISSING)

    def save(self, *, forget: bool = True) -> None:
        """Keeps what was asked for. Other files are forgotten, unless the work was cut short.

        Afterwards nothing can be asked any more.
        """
        self._flush()
        tables = self._used if forget else [self._known, *self._used]
        self._known, self._used = self.SCHEMA.empty_table(), []
        keys = np.concatenate([np.empty(0, np.uint64), *(t["key"].to_numpy() for t in tables)])
        # Of two records of one file the last one counts. (Of two files with one key one is lost,
        # and read again another time.)
        order = np.argsort(keys, kind="stable")
        kept = np.ones(len(keys), bool)
        kept[order[:-1][keys[order][1:] == keys[order][:-1]]] = False
        schema = self.SCHEMA.with_metadata({_STATE: self.state.encode()})
        with (
            replacing(self.path) as temporary,
            pq.ParquetWriter(temporary, schema, use_dictionary=False) as writer,
        ):
            start = 0
            for table in tables:
                mask = pa.array(kept[start : start + len(table)])
                writer.write_table(table.filter(mask).cast(schema), row_group_size=_PENDING)
                start += len(table)

    def _find(self, name: str) -> Record | None:
        record = self._pending.get(name) or self._before.get(name)
        if record is not None:
            return record
        if not len(self._keys):
            return None
        place = np.searchsorted(self._keys, np.uint64(_key(name)))
        if place == len(self._keys):
            return None
        place = int(self._order[place])
        if self._known["path"][place].as_py() != name:
            return None
        size, mtime_ns, found = (self._known[column][place].as_py() for column in _RECORD)
        return size, mtime_ns, found

    def _add(self, name: str, record: Record) -> None:
        self._pending[name] = record
        if len(self._pending) >= _PENDING:
            self._flush()

    def _flush(self) -> None:
        names = list(self._pending)
        columns = [[record[k] for record in self._pending.values()] for k in range(3)]
        keys = pa.array([_key(name) for name in names], pa.uint64())
        self._used.append(pa.table([keys, pa.array(names, pa.string()), *columns], self.SCHEMA))
        # Looked up once more, for what was read ahead.
        self._before, self._pending = self._pending, {}


def _utf8(path: str) -> str:
    """The path as text that can be stored, also where it is not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _key(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


def _sha256(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as handle:
        while block := handle.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _sha256_or_none(path: str) -> str | None:
    try:
        return _sha256(path)
    except OSError:
        return None
