"""What every reader gives: the units that were found, their lines, and a line as a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from adaptermill.hashing import FileStat, HashCache
from adaptermill.rows.schema import digest, dump


@dataclass(frozen=True, slots=True)
class Unit:
    """What is hashed and ingested as a whole: an episode's folder, a file, or a run of its lines.

    `name` is unique in the source. Below `root` lies the folder `name`, or the `file`; of a file
    that is cut into runs, this one is the bytes from `start` to `end` (None: to the file's end; of
    a compressed file, bytes that it unfolds to), and its first line has the number `line`.
    """

    name: str
    root: Path
    file: str = ""
    start: int = 0
    end: int | None = None
    line: int = 1

    @property
    def path(self) -> Path:
        return self.root / (self.file or self.name)

    @property
    def folder(self) -> Path:
        """What the names of images are relative to."""
        return self.path.parent if self.file else self.path

    def as_json(self) -> dict[str, Any]:
        """The unit as a manifest holds it."""
        place = {"name": self.name, "root": str(self.root)}
        if not self.file:
            return place
        return {**place, "file": self.file, "start": self.start, "end": self.end, "line": self.line}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Unit:
        """What `as_json` wrote, whatever stands beside it."""
        place = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**{**place, "root": Path(place["root"])})


# Size, mtime in ns and SHA-256 of a file.
Known = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Content:
    """What a unit is made of: a hash of it all, and bytes in all.

    `images` is JSON of what is known of its image files, by name, so that a shard need not hash
    those again that are as they were. (Text takes a fifth of the memory.)
    """

    unit: Unit
    digest: str
    size: int
    images: str

    @classmethod
    def of(
        cls, unit: Unit, hashes: Sequence[Sequence[str]], size: int, images: Mapping[str, Known]
    ) -> Content:
        """The content from the unit's files or runs of lines with their SHA-256."""
        return cls(unit, digest(dump(hashes)), size, dump(images))

    def as_json(self) -> str:
        """The unit and its images as one JSON object."""
        return f'{dump(self.unit.as_json())[:-1]},"images":{self.images}}}'


@dataclass(frozen=True)
class Found:
    """The units under some paths, sorted by name.

    `replaced` counts episodes that a later path replaced, `without_rows` folders with no rows.
    """

    contents: list[Content]
    replaced: int = 0
    without_rows: int = 0


@dataclass(frozen=True)
class Line:
    """One line that is not blank, or why there is none.

    `file` is the path below the source's root, `number` counts from 1 (in a JSON array: its
    elements). With a `reason` (a quarantine code) and its `message`, `data` is what could be read.
    """

    file: str
    number: int
    data: bytes
    reason: str | None = None
    message: str = ""


@dataclass(frozen=True)
class Draft:
    """A line as a row, not checked yet.

    `record` has what `records.check_record` wants; `kept` is what the row gives back when it is
    read (the record, unless the reader filled something in). `episode` is the name that the variant
    and the sources are taken from; None: the record's task_id. `source` is the one source of a row
    whose name says nothing else. `name` ends the row's id; None: its step. `untrainable` is why the
    answer is not to be learned, in a word (schema.py has them).
    """

    record: Mapping[str, Any]
    kept: Mapping[str, Any]
    episode: str | None = None
    untrainable: str | None = None
    # Images that are part of the line itself are stored once, and named by their hash in the row.
    name_images: bool = False
    source: str | None = None
    name: str | None = None


class Reader(Protocol):
    """One input format. A reader is made for one shard, from the source's settings."""

    # What a unit is, in a word or two.
    unit: ClassVar[str]
    # Whether `listed` gives every file that matters; else `find` learns of more by reading.
    listed_is_all: ClassVar[bool]

    def __init__(self, settings: Mapping[str, Any]) -> None: ...

    @classmethod
    def listed(cls, paths: Sequence[str]) -> Iterator[FileStat]:
        """The files that belong to `paths` by their place; `UserError` when a path is missing."""

    @classmethod
    def find(cls, paths: Sequence[str], run_bytes: float, cache: HashCache) -> Found:
        """All units under `paths`; `UserError` when there is none.

        Files that hold many episodes are cut into runs of about `run_bytes`.
        """

    def describe(self, unit: Unit) -> dict[str, Any] | None:
        """What is recorded of the unit as a whole; None where nothing readable is."""

    def lines(self, unit: Unit) -> Iterator[Line]:
        """Every line of the unit that is not blank."""

    def draft(self, record: dict[str, Any], line: Line, unit: Unit) -> Draft:
        """The parsed line as a row; raises `records.Problem` where the format says it is none."""
