"""Reading shards: rows by id, screenshots by hash, without holding more than a few row groups."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.errors import UserError
from adaptermill.rows.schema import Row

_KEPT_GROUPS = 16
# Files that are open at a time; there may be more shards than a process may open.
_KEPT_FILES = 64


class _Indexed:
    """Random access to Parquet files by a string column."""

    def __init__(self, paths: Sequence[Path], column: str) -> None:
        self.paths = [Path(path) for path in paths]
        self.places: dict[str, tuple[int, int, int]] = {}
        self._file = lru_cache(maxsize=_KEPT_FILES)(self._open)
        self._group = lru_cache(maxsize=_KEPT_GROUPS)(self._read_group)
        for number in range(len(self.paths)):
            self._index(number, column)

    def _index(self, number: int, column: str) -> None:
        file = self._file(number)
        names = iter(file.read(columns=[column])[column].to_pylist())
        for group in range(file.num_row_groups):
            for offset in range(file.metadata.row_group(group).num_rows):
                # The same image may lie in several shards; the first place serves.
                self.places.setdefault(next(names), (number, group, offset))

    def _open(self, number: int) -> pq.ParquetFile:
        return pq.ParquetFile(self.paths[number])

    def _read_group(self, number: int, group: int, columns: tuple[str, ...] | None) -> pa.Table:
        return self._file(number).read_row_group(group, columns=columns and list(columns))

    def line(self, name: str, kind: str, columns: tuple[str, ...] | None = None) -> dict:
        """The line of that name (all of its columns, or some); `UserError` when there is none."""
        place = self.places.get(name)
        if place is None:
            raise UserError(
                f"{kind} {name} is in none of the {len(self.paths)} shard files that were given; "
                "the shards are newer or older than what asks for it: build again with snakemake"
            )
        number, group, offset = place
        return self._group(number, group, columns).slice(offset, 1).to_pylist()[0]


class Rows:
    """The rows of some shards, by `row_id`."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._index = _Indexed(paths, "row_id")

    def __contains__(self, row_id: str) -> bool:
        return row_id in self._index.places

    def __len__(self) -> int:
        return len(self._index.places)

    def get(self, row_id: str) -> Row:
        """The row; `UserError` when no shard holds it."""
        return Row.from_columns(self._index.line(row_id, "row"))

    def get_many(self, row_ids: Iterable[str]) -> list[Row]:
        return [self.get(row_id) for row_id in row_ids]


class Images:
    """The screenshots of some shards, by SHA-256."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._index = _Indexed(paths, "sha256")

    def bytes(self, sha256: str) -> bytes:
        """The original bytes; `UserError` when no shard holds them."""
        return self._index.line(sha256, "image")["image"]["bytes"]

    def size(self, sha256: str) -> tuple[int, int]:
        """(width, height) in pixels, after the EXIF orientation."""
        line = self._index.line(sha256, "image", ("width", "height"))
        return line["width"], line["height"]


def iterate(path: Path) -> Iterator[Row]:
    """All rows of one shard, in its order."""
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        for values in file.read_row_group(group).to_pylist():
            yield Row.from_columns(values)


def image_sizes(path: Path) -> dict[str, tuple[int, int]]:
    """SHA-256 -> (width, height) of one shard's images, without reading their bytes."""
    table = pq.read_table(path, columns=["sha256", "width", "height"]).to_pydict()
    sides = zip(table["width"], table["height"], strict=True)
    return dict(zip(table["sha256"], sides, strict=True))


def source_name(folder: Path) -> str:
    """The name of the ingested source in `folder`."""
    return _summary(folder)["source"]


def shard_paths(folder: Path, kind: str) -> list[Path]:
    """The files of `kind` (shards, images, quarantine) that the source's summary lists."""
    paths = [folder / kind / f"{name}.parquet" for name in _summary(folder)["shards"]]
    for path in paths:
        if not path.is_file():
            raise UserError(f"{path} is missing; ingest {folder.name} again with snakemake")
    return paths


def _summary(folder: Path) -> dict[str, Any]:
    path = folder / "summary.json"
    if not path.is_file():
        raise UserError(f"{folder} is no ingested source: it has no summary.json; ingest it first")
    return json.loads(path.read_text(encoding="utf-8"))


def open_sources(folders: Sequence[Path]) -> tuple[Rows, Images]:
    """Rows and screenshots of ingested sources (`results/ingest/<source>`)."""
    rows = [path for folder in folders for path in shard_paths(Path(folder), "shards")]
    images = [path for folder in folders for path in shard_paths(Path(folder), "images")]
    return Rows(rows), Images(images)
