"""What formats of one conversation a line share: files are cut into runs of lines.

A file (`.jsonl`, or `.json` with an array; `.gz` and `.zst` too) is cut after lines that their own
hash chooses, so a run depends on its lines alone: lines that are added at the end leave all runs
but the last as they were, and an edit changes the runs around it.

Every line is an episode of one step, `<file>-<line>`. Its source, by which it is held out, is what
the line says in `task_id`, `episode_id`, `conversation_id` or `id` (or the configured column), so
that all lines of one conversation fall on one side.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from adaptermill.errors import UserError
from adaptermill.hashing import FileStat, HashCache
from adaptermill.rows.readers import arrays, lines, streams
from adaptermill.rows.readers.conversation import Conversation
from adaptermill.rows.readers.families import Families, action_name
from adaptermill.rows.readers.lines import Piece, number_lines
from adaptermill.rows.readers.places import images_below, named_files, with_images
from adaptermill.rows.readers.reader import Draft, Found, Line, Unit
from adaptermill.rows.records import Problem
from adaptermill.rows.schema import image_parts

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".json.gz", ".json.zst")
EPISODE_COLUMNS = ("task_id", "episode_id", "conversation_id", "id")
# Keys of a line that mean the same in every row.
_LIFTED = ("macro", "site", "segment", "inject", "aug_prefix")
# About what a screenshot adds to a run; its own size would move the cuts when it is edited.
_IMAGE_WEIGHT = 200_000
_LONGEST_RUN = 4


class JsonlReader:
    """Base of the readers of such files; they say what a line's conversation is."""

    unit: ClassVar[str] = "run of line"
    listed_is_all: ClassVar[bool] = False
    # What counts of a folder: globs, each before one of SUFFIXES.
    patterns: ClassVar[Sequence[str]] = ("*",)
    suffixes: ClassVar[Sequence[str]] = SUFFIXES

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.families = Families(settings["families"])
        self.episode: str | None = settings["episode"]
        self._ranges = streams.Ranges()
        self._arrays: dict[Path, bool] = {}

    @classmethod
    def converse(cls, record: Mapping[str, Any]) -> Conversation:
        """Prompt and answer of one line; `Problem` where there is none."""
        raise TypeError(f"{cls.__name__} reads no format")

    @classmethod
    def listed(cls, paths: Sequence[str]) -> Iterator[FileStat]:
        """The files themselves; images are known once they are read."""
        for path in cls.files(paths):
            yield FileStat.of(path)

    @classmethod
    def files(cls, paths: Sequence[str]) -> list[Path]:
        """The files that `paths` name; `UserError` when two of them would name the same rows."""
        patterns = [start + suffix for start in cls.patterns for suffix in cls.suffixes]
        wanted = f"give a file or a folder of files that end in {', '.join(cls.suffixes)}"
        files = named_files(paths, patterns, wanted)
        by_label: dict[str, Path] = {}
        for file in files:
            other = by_label.setdefault(cls.label(file), file)
            if other is not file:
                raise UserError(
                    f"{other} and {file} would both name their rows {cls.label(file)}-<line>; "
                    "rename one, or make it a source of its own"
                )
        return files

    @classmethod
    def place(cls, path: Path) -> tuple[Path, str]:
        """Root and file of the units of `path`; the file is what counts and refusals name."""
        return path.parent, path.name

    @classmethod
    def label(cls, path: Path) -> str:
        """What the rows of `path` are called, before their line's number."""
        return _stem(path.name)

    @classmethod
    def find(cls, paths: Sequence[str], run_bytes: float, cache: HashCache) -> Found:
        """The runs of all files, with the hashes of their lines and images."""
        contents = []
        for path in cls.files(paths):

            def cut(_: str, path: Path = path) -> str:
                return json.dumps(list(cls._runs(path, run_bytes)))

            kind = f"{cls.__name__} {run_bytes:.0f} "
            try:
                runs = json.loads(cache.remembered(FileStat.of(path), cut, kind))
            except OSError as error:
                raise UserError(f"{path} cannot be read: {error.strerror}") from None
            for start, end, line, sha256, text_bytes, images in runs:
                name = f"{cls.label(path)}:{line}"
                unit = Unit(name, *cls.place(path), start, end, line)
                contents.append(with_images(unit, ["lines", sha256], text_bytes, images, cache))
        if not contents:
            raise UserError(f"there is no line in {', '.join(paths)}")
        return Found(sorted(contents, key=lambda content: content.unit.name))

    @classmethod
    def _runs(cls, path: Path, run_bytes: float) -> Iterator[list[Any]]:
        """[start, end, number of the first line, SHA-256, bytes, images] of every run."""
        start = position = weight = number = 0
        first, images, found = 1, set(), hashlib.sha256()
        cut = False
        for number, piece in enumerate(_pieces(path), 1):
            # What cannot be read is never a run of its own: it is reached through what can.
            if cut and piece.reason is None:
                yield [start, position, first, found.hexdigest(), position - start, sorted(images)]
                start, weight, first = position, 0, number
                images, found = set(), hashlib.sha256()
            shown = cls._images(piece.data, path.parent)
            images.update(shown)
            found.update(b"%d %d " % (piece.size, len(piece.data)) + piece.data)
            position += piece.size
            own = piece.size + _IMAGE_WEIGHT * len(shown)
            weight += own
            chosen = zlib.crc32(piece.data) < own / run_bytes * 2**32 and bool(piece.data.strip())
            cut = chosen or weight >= _LONGEST_RUN * run_bytes
        if number:
            yield [start, None, first, found.hexdigest(), position - start, sorted(images)]

    @classmethod
    def _images(cls, data: bytes, folder: Path) -> list[str]:
        """The image files that a line leads to."""
        if b"image" not in data and b"\\u" not in data:
            return []
        try:
            messages = cls.converse(json.loads(data.removeprefix(lines.BOM))).messages
            urls = [part["image_url"]["url"] for part in image_parts(messages)]
            return images_below(urls, folder)
        except (Problem, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return []  # no row comes of the line

    def describe(self, unit: Unit) -> dict[str, Any] | None:
        """Nothing is recorded beside the lines."""
        return {}

    def lines(self, unit: Unit) -> Iterator[Line]:
        """The lines of the run."""
        if unit.path not in self._arrays:
            self._arrays[unit.path] = _is_array(unit.path)
        blocks = self._ranges.read(unit.path, unit.start, unit.end)
        if self._arrays[unit.path]:
            inside, to_end = unit.start > 0, unit.end is None
            pieces = arrays.split(blocks, inside=inside, to_end=to_end)
        else:
            pieces = lines.split(blocks)
        return number_lines(pieces, unit.file, unit.line)

    def draft(self, record: dict[str, Any], line: Line, unit: Unit) -> Draft:
        """The conversation as a row; the line's other keys are kept under `line`."""
        talk = self.converse(record)
        op = record.get("op")
        op = op if isinstance(op, str) and op else action_name(talk.target)
        made = {
            "task_id": f"{self.label(unit.path)}-{line.number}",
            "step": 0,
            "family": self.families.of(record, op),
            "op": op,
            **{name: record[name] for name in _LIFTED if record.get(name) is not None},
            "messages": talk.messages,
            "target": talk.target,
            "line": {name: value for name, value in record.items() if name not in talk.used},
        }
        return Draft(made, made, self._episode_of(record), talk.untrainable, name_images=True)

    def _episode_of(self, record: Mapping[str, Any]) -> str | None:
        if self.episode is not None and record.get(self.episode) is None:
            raise Problem("missing_field", f"there is no {self.episode!r} (the episode's column)")
        for name in [self.episode] if self.episode else EPISODE_COLUMNS:
            value = record.get(name)
            if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
                return str(value)
        if self.episode is not None:
            raise Problem("wrong_type", f"{self.episode} names no episode; a string or a number")
        return None


def _stem(name: str) -> str:
    suffix = max((end for end in SUFFIXES if name.endswith(end)), key=len, default="")
    return name.removesuffix(suffix)


def _is_array(path: Path) -> bool:
    plain = path.name.removesuffix(".gz").removesuffix(".zst")
    return plain.endswith(".json") and arrays.is_array(streams.blocks(path))


def _pieces(path: Path) -> Iterator[Piece]:
    blocks = streams.blocks(path)
    return arrays.split(blocks) if _is_array(path) else lines.split(blocks)
