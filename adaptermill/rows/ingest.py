"""One shard: every line of its units becomes a row or a quarantine record.

Memory is bounded by the row groups being filled (a few MB each), whatever the size of the shard.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.rows.attachments import is_data_url, read_image
from adaptermill.rows.episodes import sources_of, variant_of
from adaptermill.rows.images import ImageInfo, ImageLimits, ImageProblem, check
from adaptermill.rows.readers import READERS
from adaptermill.rows.readers.reader import Draft, Known, Line, Unit
from adaptermill.rows.records import Problem, check_record, parse
from adaptermill.rows.schema import (
    IMAGE_SCHEMA,
    QUARANTINE_SCHEMA,
    ROW_SCHEMA,
    content_hashes,
    dump,
    image_parts,
)

ROW_GROUP_BYTES = 2_000_000
IMAGE_GROUP_BYTES = 4_000_000
QUARANTINE_GROUP_BYTES = 4_000_000
EXCERPT_LENGTH = 200
MESSAGE_LENGTH = 500
# About what a quarantine record takes; they are counted, not measured.
_QUARANTINE_RECORD_BYTES = 500


class _Groups:
    """Writes a Parquet file row group by row group, each of about `limit` bytes."""

    def __init__(self, path: Path, schema: pa.Schema, limit: int, **options: Any) -> None:
        self.schema = schema
        self.limit = limit
        self.writer = pq.ParquetWriter(path, schema, **options)
        self.pending: list[dict[str, Any]] = []
        self.size = 0

    def add(self, values: dict[str, Any], size: int) -> None:
        self.pending.append(values)
        self.size += size
        if self.size >= self.limit:
            self._flush()

    def _flush(self) -> None:
        if self.pending:
            self.writer.write_table(self._table(self.pending))
        self.pending, self.size = [], 0

    def _table(self, lines: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist(lines, schema=self.schema)

    def close(self) -> None:
        self._flush()
        self.writer.close()


class _ImageGroups(_Groups):
    """Row groups of images, whose bytes are copied once."""

    def _table(self, lines: list[dict[str, Any]]) -> pa.Table:
        files = [line["image"]["bytes"] for line in lines]
        ends = np.cumsum([0, *(len(file) for file in files)], dtype=np.int64)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(files))]
        paths = pa.array([line["image"]["path"] for line in lines], pa.string())
        image = pa.StructArray.from_arrays(
            [pa.Array.from_buffers(pa.large_binary(), len(files), buffers), paths],
            fields=list(self.schema.field("image").type),
        )
        columns = [
            image
            if field.name == "image"
            else pa.array([line[field.name] for line in lines], field.type)
            for field in self.schema
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)


@dataclass
class Counts:
    """What became of a shard's lines."""

    lines: int = 0
    rows: int = 0
    quarantined: int = 0


class ShardWriter:
    """Ingests units into the three Parquet files of one shard.

    Use as a context manager; `counts` maps each file to its lines, rows and quarantined lines.
    """

    def __init__(
        self, settings: Mapping[str, Any], rows: Path, images: Path, quarantine: Path
    ) -> None:
        self.source: str = settings["source"]
        self.limits = ImageLimits(**settings["image"])
        self.reader = READERS[settings["format"]](settings)
        repeated = ["source", "family", "op", "variant", "macro", "site", "episode", "task_id"]
        self.rows = _Groups(
            rows, ROW_SCHEMA, ROW_GROUP_BYTES, compression="zstd", use_dictionary=repeated
        )
        # Screenshots are compressed already.
        self.images = _ImageGroups(
            images,
            IMAGE_SCHEMA,
            IMAGE_GROUP_BYTES,
            compression="none",
            use_dictionary=False,
            write_statistics=["sha256"],
        )
        self.quarantine = _Groups(
            quarantine, QUARANTINE_SCHEMA, QUARANTINE_GROUP_BYTES, compression="zstd"
        )
        self.counts: dict[str, Counts] = {}
        self.known_images: dict[str, ImageInfo | ImageProblem] = {}
        self.written_images: set[str] = set()
        self.row_ids: set[str] = set()
        self.facts: Counter[str] = Counter()
        self.scanned: Mapping[str, Known] = {}

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, *_: object) -> None:
        facts = {
            "files": {file: vars(count) for file, count in sorted(self.counts.items())},
            "episodes": self.facts["episodes"],
            "episodes_without_metadata": self.facts["episodes_without_metadata"],
        }
        self.quarantine.writer.add_key_value_metadata({"adaptermill": dump(facts)})
        for groups in (self.rows, self.images, self.quarantine):
            groups.close()

    def totals(self) -> Counts:
        """Lines, rows and quarantined lines of all files together."""
        files = self.counts.values()
        return Counts(
            sum(count.lines for count in files),
            sum(count.rows for count in files),
            sum(count.quarantined for count in files),
        )

    def add_unit(self, unit: Unit, images: Mapping[str, Known] | None = None) -> None:
        """Reads all lines of a unit; nothing in them stops the run.

        `images` is what was known of its image files when they were scanned.
        """
        self.scanned = images or {}
        described = self.reader.describe(unit)
        told = None if described is None else dump(described)
        if described is None:
            self.facts["episodes_without_metadata"] += 1
        tasks = set()
        for line in self.reader.lines(unit):
            count = self.counts.setdefault(line.file, Counts())
            count.lines += 1
            try:
                tasks.add(self._add_line(line, unit, described or {}, told))
                count.rows += 1
            except Problem as problem:
                count.quarantined += 1
                self._quarantine(line, problem)
        self.facts["episodes"] += max(1, len(tasks))

    def _quarantine(self, line: Line, problem: Problem) -> None:
        # A character of UTF-8 takes at most four bytes.
        text = line.data[: 4 * EXCERPT_LENGTH].decode("utf-8", errors="replace")
        values = {
            "source": self.source,
            "file": line.file,
            "line": line.number,
            "reason": problem.reason,
            "message": problem.message[:MESSAGE_LENGTH],
            "excerpt": text[:EXCERPT_LENGTH],
        }
        self.quarantine.add(values, _QUARANTINE_RECORD_BYTES)

    def _add_line(
        self, line: Line, unit: Unit, described: Mapping[str, Any], told: str | None
    ) -> str:
        """Makes a row of the line, or raises `Problem`; returns the row's task_id."""
        if line.reason is not None:
            raise Problem(line.reason, line.message)
        draft = self.reader.draft(parse(line.data), line, unit)
        record = draft.record
        check_record(record)
        name = record["step"] if draft.name is None else draft.name
        row_id = f"{self.source}/{record['task_id']}/{name}"
        if row_id in self.row_ids:
            message = f"step {name} of {record['task_id']} is there already"
            raise Problem("duplicate_row_id", message)
        parts = list(image_parts(record["messages"]))
        images = [self._image(part["image_url"]["url"], unit.folder) for part in parts]
        for sha256, data, name in images:
            self._write_image(sha256, data, name)
        self.row_ids.add(row_id)
        hashes = [sha256 for sha256, _, _ in images]
        if draft.name_images:
            for part, sha256 in zip(parts, hashes, strict=True):
                if is_data_url(part["image_url"]["url"]):
                    part["image_url"]["url"] = f"sha256:{sha256}"
        values = self._columns(row_id, draft, hashes, described)
        size = sum(len(values[name]) for name in ("messages", "target", "fields"))
        self.rows.add({**values, "episode": told}, size + len(told or ""))
        return record["task_id"]

    def _columns(
        self, row_id: str, draft: Draft, images: list[str], described: Mapping[str, Any]
    ) -> dict[str, Any]:
        record = draft.record
        parts = described.get("parts")
        named = isinstance(parts, list) and parts and all(isinstance(p, str) for p in parts)
        parts = parts if named else None
        episode = record["task_id"] if draft.episode is None else draft.episode
        sources = sources_of(episode, parts) if draft.source is None else [draft.source]
        fields = {
            name: None if name in ("messages", "target") else value
            for name, value in draft.kept.items()
        }
        success = described.get("success")
        untrainable = _untrainable(record) or draft.untrainable
        return {
            "row_id": row_id,
            "source": self.source,
            "task_id": record["task_id"],
            "step": record["step"],
            "family": record["family"],
            "op": record["op"],
            "variant": variant_of(episode, bool(parts)) if draft.source is None else "plain",
            "sources": sources,
            "macro": _text(record.get("macro", described.get("macro"))),
            "site": _text(record.get("site", described.get("site"))),
            "success": success if isinstance(success, bool) else None,
            "trainable": untrainable is None,
            "untrainable": untrainable,
            "messages": dump(record["messages"]),
            "target": record["target"],
            "fields": dump(fields),
            "images": images,
            **content_hashes(record["messages"], record["target"], images),
        }

    def _image(self, url: str, folder: Path) -> tuple[str, bytes, str | None]:
        """The image's SHA-256, bytes, and file name; raises `Problem` where it is not usable."""
        data, name, stat = read_image(url, folder, self.limits.max_file_bytes)
        size, mtime_ns, sha256 = self.scanned.get(url, (0, 0, ""))
        if len(data) != size or stat != (size, mtime_ns):
            sha256 = hashlib.sha256(data).hexdigest()
        known = self.known_images.get(sha256)
        if known is None:
            try:
                known = check(data, self.limits)
            except ImageProblem as problem:
                known = problem
            self.known_images[sha256] = known
        if isinstance(known, ImageProblem):
            raise Problem(known.reason, f"{name or 'data: URL'}: {known.message}")
        return sha256, data, name

    def _write_image(self, sha256: str, data: bytes, name: str | None) -> None:
        if sha256 in self.written_images:
            return
        self.written_images.add(sha256)
        info = self.known_images[sha256]
        assert isinstance(info, ImageInfo)
        values = {"sha256": sha256, "image": {"bytes": data, "path": name}, **vars(info)}
        self.images.add(values, len(data))


def _untrainable(record: Mapping[str, Any]) -> str | None:
    """Why a replayed step is not trained on, by its own marks."""
    if record.get("inject"):
        return "injected"
    return "copied_prefix" if record.get("aug_prefix") else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
