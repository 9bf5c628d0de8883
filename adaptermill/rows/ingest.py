"""One shard: every line of its episodes becomes a row or a quarantine record.

Memory is bounded by the row groups being filled (a few MB each), whatever the size of the shard.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.rows.episodes import sources_of, variant_of
from adaptermill.rows.images import ImageInfo, ImageLimits, ImageProblem, check
from adaptermill.rows.readers import READERS
from adaptermill.rows.readers.reader import Episode, Line
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
EXCERPT_LENGTH = 200
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_DATA_URL = re.compile(r"^data:[\w.+-]+/[\w.+-]+(;[\w.=+-]+)*;base64,", re.ASCII)
_REQUIRED = {
    "task_id": str,
    "step": int,
    "family": str,
    "op": str,
    "messages": list,
    "target": str,
}
_ROLES = ("system", "user", "assistant", "tool", "developer")


class Problem(Exception):
    """Why a line is no row: a quarantine reason and a message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


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
        self.quarantine_path = quarantine
        repeated = ["source", "family", "op", "variant", "macro", "site", "episode", "task_id"]
        self.rows = _Groups(
            rows, ROW_SCHEMA, ROW_GROUP_BYTES, compression="zstd", use_dictionary=repeated
        )
        # Screenshots are compressed already.
        self.images = _Groups(
            images, IMAGE_SCHEMA, IMAGE_GROUP_BYTES, compression="none", use_dictionary=False
        )
        self.problems: list[dict[str, Any]] = []
        self.counts: dict[str, Counts] = {}
        self.known_images: dict[str, ImageInfo | ImageProblem] = {}
        self.written_images: set[str] = set()
        self.row_ids: set[str] = set()
        self.facts: Counter[str] = Counter()

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.rows.close()
        self.images.close()
        facts = {
            "files": {file: vars(count) for file, count in sorted(self.counts.items())},
            "episodes_without_metadata": self.facts["episodes_without_metadata"],
        }
        schema = QUARANTINE_SCHEMA.with_metadata({"adaptermill": dump(facts)})
        table = pa.Table.from_pylist(self.problems, schema=schema)
        pq.write_table(table, self.quarantine_path, compression="zstd")

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
        if described is None:
            self.facts["episodes_without_metadata"] += 1
        for line in self.reader.lines(episode):
            count = self.counts.setdefault(line.file, Counts())
            count.lines += 1
            try:
                self._add_line(line, episode, described)
                count.rows += 1
            except Problem as problem:
                count.quarantined += 1
                self._quarantine(line, problem)

    def _quarantine(self, line: Line, problem: Problem) -> None:
        text = line.data[: 4 * EXCERPT_LENGTH].decode("utf-8", errors="replace")
        self.problems.append(
            {
                "source": self.source,
                "file": line.file,
                "line": line.number,
                "reason": problem.reason,
                "message": problem.message,
                "excerpt": text[:EXCERPT_LENGTH],
            }
        )

    def _add_line(self, line: Line, episode: Episode, described: dict[str, Any] | None) -> None:
        if line.problem is not None:
            raise Problem("file_unreadable", line.problem)
        record = parse(line.data)
        # Rows that name no family take the source's; `fields` keeps the record as it came.
        checked = record if self.family is None else {"family": self.family, **record}
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
        self.rows.add(values, len(line.data))

    def _columns(
        self,
        row_id: str,
        checked: Mapping[str, Any],
        record: Mapping[str, Any],
        images: list[str],
        described: dict[str, Any] | None,
    ) -> dict[str, Any]:
        told = described or {}
        parts = told.get("parts")
        named = isinstance(parts, list) and parts and all(isinstance(p, str) for p in parts)
        parts = parts if named else None
        task_id = checked["task_id"]
        fields = {
            name: None if name in ("messages", "target") else value
            for name, value in record.items()
        }
        success = told.get("success")
        return {
            "row_id": row_id,
            "source": self.source,
            "task_id": task_id,
            "step": checked["step"],
            "family": checked["family"],
            "op": checked["op"],
            "variant": variant_of(task_id, bool(parts)),
            "sources": sources_of(task_id, parts),
            "macro": _text(checked.get("macro", told.get("macro"))),
            "site": _text(checked.get("site", told.get("site"))),
            "success": success if isinstance(success, bool) else None,
            "trainable": not checked.get("inject") and not checked.get("aug_prefix"),
            "messages": dump(checked["messages"]),
            "target": checked["target"],
            "fields": dump(fields),
            "episode": None if described is None else dump(described),
            "images": images,
            **content_hashes(checked["messages"], checked["target"], images),
        }

    def _image(self, url: str, folder: Path) -> tuple[str, bytes, str | None]:
        """The image's SHA-256, bytes, and file name; raises `Problem` where it is not usable."""
        if url.startswith("data:"):
            data, name = _from_data_url(url), None
        else:
            data, name = _from_file(url, folder), url
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


def parse(data: bytes) -> dict[str, Any]:
    """The JSON object on a line; raises `Problem` for anything else."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Problem("not_utf8", f"byte {error.start + 1} is not UTF-8") from None
    try:
        record = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_constant, parse_float=_finite
        )
    except json.JSONDecodeError as error:
        raise Problem("json_syntax", f"column {error.pos + 1}: {error.msg}") from None
    except RecursionError:
        raise Problem("json_syntax", "nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise Problem("json_syntax", str(error)) from None
    if not isinstance(record, dict):
        raise Problem("not_an_object", f"a {type(record).__name__}, not a JSON object")
    try:
        dump(record).encode("utf-8")
    except UnicodeEncodeError:
        message = "a string holds half of a surrogate pair (\\ud800 to \\udfff)"
        raise Problem("lone_surrogate", message) from None
    return record


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = Counter(name for name, _ in pairs)
        repeated = next(name for name, count in names.items() if count > 1)
        raise Problem("duplicate_key", f"the key {repeated!r} stands twice in one object")
    return made


def _constant(name: str) -> float:
    raise Problem("non_finite_number", f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Problem("non_finite_number", f"{text} is too large for a number")
    return value


def check_record(record: Mapping[str, Any], episode: str) -> None:
    """Raises `Problem` unless the record has all that a row needs, with the right types."""
    wanted = {
        "task_id": str,
        "step": int,
        "family": str,
        "op": str,
        "messages": list,
        "target": str,
    }
    for name, kind in wanted.items():
        if name not in record:
            raise Problem("missing_field", f"there is no {name!r}")
        _expect(name, record[name], kind)
    if not 0 <= record["step"] < 2**31:
        raise Problem("wrong_type", f"step is {record['step']}, not a count from 0")
    for name in ("inject", "aug_prefix"):
        value = record.get(name)
        if value is not None and not isinstance(value, (str, bool, dict)):
            raise Problem("wrong_type", f"{name} is a {type(value).__name__}")
    if not record["messages"]:
        raise Problem("missing_field", "messages is empty")
    for position, message in enumerate(record["messages"]):
        _check_message(f"messages[{position}]", message)
    if not record["target"].strip():
        raise Problem("empty_target", "target is empty")
    if record["task_id"] != episode:
        message = f"task_id is {record['task_id']!r} in the episode folder {episode!r}"
        raise Problem("id_mismatch", message)


def _expect(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        message = f"{name} is a {type(value).__name__}, not a {kind.__name__}"
        raise Problem("wrong_type", message)


def _check_message(where: str, message: Any) -> None:
    _expect(where, message, dict)
    for name in ("role", "content"):
        if name not in message:
            raise Problem("missing_field", f"{where} has no {name!r}")
    if message["role"] not in _ROLES:
        raise Problem("wrong_type", f"{where}.role is {message['role']!r}; one of {_ROLES}")
    content = message["content"]
    if isinstance(content, str):
        return
    _expect(f"{where}.content", content, list)
    for position, part in enumerate(content):
        here = f"{where}.content[{position}]"
        _expect(here, part, dict)
        kind = part.get("type")
        if kind == "text":
            _expect(f"{here}.text", part.get("text"), str)
        elif kind == "image_url":
            _expect(f"{here}.image_url", part.get("image_url"), dict)
            _expect(f"{here}.image_url.url", part["image_url"].get("url"), str)
        else:
            raise Problem("wrong_type", f"{here}.type is {kind!r}, not 'text' or 'image_url'")


def _from_data_url(url: str) -> bytes:
    header = _DATA_URL.match(url)
    if header is None:
        raise Problem("image_not_an_image", "a data: URL without `;base64,`")
    try:
        return base64.b64decode(url[header.end() :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise Problem("image_truncated", f"the data: URL is not base64: {error}") from None


def _from_file(url: str, folder: Path) -> bytes:
    if os.path.isabs(url) or url.startswith("~"):
        raise Problem("path_outside_episode", f"{url} is an absolute path; it is not opened")
    if _SCHEME.match(url) or url.startswith("//"):
        raise Problem("remote_url", f"{url[:100]} is not beside the rows; it is not fetched")
    try:
        real = os.path.realpath(folder / url)
        home = os.path.realpath(folder)
        if not real.startswith(home + os.sep):
            raise Problem("path_outside_episode", f"{url} leads out of the episode's folder")
        with open(real, "rb") as handle:
            return handle.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Problem("image_missing", f"{url}: {reason}") from None
