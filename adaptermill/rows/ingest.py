"""One shard: every line of its episodes becomes a row or a quarantine record.

Memory is bounded by the row groups being filled (a few MB each), whatever the size of the shard.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.rows.attachments import read_image
from adaptermill.rows.episodes import sources_of, variant_of
from adaptermill.rows.images import ImageInfo, ImageLimits, ImageProblem, check
from adaptermill.rows.readers import READERS
from adaptermill.rows.readers.reader import Episode, Line
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
            self.writer.write_table(pa.Table.from_pylist(self.pending, schema=self.schema))
        self.pending, self.size = [], 0

    def close(self) -> None:
        self._flush()
        self.writer.close()


@dataclass
class Counts:
    """What became of a shard's lines."""

    lines: int = 0
    rows: int = 0
    quarantined: int = 0


class ShardWriter:
    """Ingests episodes into the three Parquet files of one shard.

    Use as a context manager; `counts` maps each file to its lines, rows and quarantined lines.
    """

    def __init__(
        self, settings: Mapping[str, Any], rows: Path, images: Path, quarantine: Path
    ) -> None:
        self.source: str = settings["source"]
        self.family: str | None = settings["family"]
        self.limits = ImageLimits(**settings["image"])
        self.reader = READERS[settings["format"]]
        repeated = ["source", "family", "op", "variant", "macro", "site", "episode", "task_id"]
        self.rows = _Groups(
            rows, ROW_SCHEMA, ROW_GROUP_BYTES, compression="zstd", use_dictionary=repeated
        )
        # Screenshots are compressed already.
        self.images = _Groups(
            images, IMAGE_SCHEMA, IMAGE_GROUP_BYTES, compression="none", use_dictionary=False
        )
        self.quarantine = _Groups(
            quarantine, QUARANTINE_SCHEMA, QUARANTINE_GROUP_BYTES, compression="zstd"
        )
        self.counts: dict[str, Counts] = {}
        self.known_images: dict[str, ImageInfo | ImageProblem] = {}
        self.written_images: set[str] = set()
        self.row_ids: set[str] = set()
        self.facts: Counter[str] = Counter()

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, *_: object) -> None:
        facts = {
            "files": {file: vars(count) for file, count in sorted(self.counts.items())},
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

    def add_episode(self, episode: Episode) -> None:
        """Reads all lines of an episode; nothing in them stops the run."""
        described = self.reader.describe(episode)
        told = None if described is None else dump(described)
        if described is None:
            self.facts["episodes_without_metadata"] += 1
        for line in self.reader.lines(episode):
            count = self.counts.setdefault(line.file, Counts())
            count.lines += 1
            try:
                self._add_line(line, episode, described or {}, told)
                count.rows += 1
            except Problem as problem:
                count.quarantined += 1
                self._quarantine(line, problem)

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
        self, line: Line, episode: Episode, described: Mapping[str, Any], told: str | None
    ) -> None:
        if line.reason is not None:
            raise Problem(line.reason, line.message)
        record = parse(line.data)
        checked = record
        if self.family is not None and record.get("family") is None:
            # Rows that name no family take the source's; `fields` keeps the record as it came.
            checked = {**record, "family": self.family}
        check_record(checked, episode.task_id)
        row_id = f"{self.source}/{checked['task_id']}/{checked['step']}"
        if row_id in self.row_ids:
            message = f"step {checked['step']} of {checked['task_id']} is there already"
            raise Problem("duplicate_row_id", message)
        images = [
            self._image(part["image_url"]["url"], episode.folder)
            for part in image_parts(checked["messages"])
        ]
        for sha256, data, name in images:
            self._write_image(sha256, data, name)
        self.row_ids.add(row_id)
        hashes = [sha256 for sha256, _, _ in images]
        values = self._columns(row_id, checked, record, hashes, described)
        self.rows.add({**values, "episode": told}, len(line.data) + len(told or ""))

    def _columns(
        self,
        row_id: str,
        checked: Mapping[str, Any],
        record: Mapping[str, Any],
        images: list[str],
        described: Mapping[str, Any],
    ) -> dict[str, Any]:
        parts = described.get("parts")
        named = isinstance(parts, list) and parts and all(isinstance(p, str) for p in parts)
        parts = parts if named else None
        task_id = checked["task_id"]
        fields = {
            name: None if name in ("messages", "target") else value
            for name, value in record.items()
        }
        success = described.get("success")
        return {
            "row_id": row_id,
            "source": self.source,
            "task_id": task_id,
            "step": checked["step"],
            "family": checked["family"],
            "op": checked["op"],
            "variant": variant_of(task_id, bool(parts)),
            "sources": sources_of(task_id, parts),
            "macro": _text(checked.get("macro", described.get("macro"))),
            "site": _text(checked.get("site", described.get("site"))),
            "success": success if isinstance(success, bool) else None,
            "trainable": not checked.get("inject") and not checked.get("aug_prefix"),
            "messages": dump(checked["messages"]),
            "target": checked["target"],
            "fields": dump(fields),
            "images": images,
            **content_hashes(checked["messages"], checked["target"], images),
        }

    def _image(self, url: str, folder: Path) -> tuple[str, bytes, str | None]:
        """The image's SHA-256, bytes, and file name; raises `Problem` where it is not usable."""
        data, name = read_image(url, folder, self.limits.max_file_bytes)
        sha256 = _sha256(data)
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


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
