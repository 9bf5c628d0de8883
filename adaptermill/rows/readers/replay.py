"""Replay roots: a folder per episode with `episode.json`, `rows.jsonl` and screenshots.

`rows.jsonl` may be compressed (`.gz`, `.zst`). Folders whose name starts with `_` are no episodes,
symlinked folders are, and of several roots a later one's episode replaces an earlier one's.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from adaptermill.errors import UserError
from adaptermill.hashing import FileStat, HashCache
from adaptermill.rows.files import content, entries, walk
from adaptermill.rows.readers.lines import BOM, read_lines
from adaptermill.rows.readers.reader import Content, Draft, Found, Line, Unit
from adaptermill.rows.records import Problem

ROWS_NAMES = ("rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst")
_HASHED_TOGETHER = 100
NOT_IMAGES = frozenset(["episode.json", *ROWS_NAMES])
_LAYOUT = "a replay source's path is a folder with one folder per episode, each with a rows.jsonl"


class ReplayReader:
    """Reads the episodes under one or many roots."""

    unit: ClassVar[str] = "episode"
    listed_is_all: ClassVar[bool] = True

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.family: str | None = settings["family"]

    @staticmethod
    def roots(paths: Sequence[str]) -> list[str]:
        """The folders that `paths` (folders or globs) name, in order.

        A folder that is named twice counts once, at its last place.
        """
        found: dict[str, str] = {}
        for path in paths:
            folders = [path] if os.path.isdir(path) else sorted(glob.glob(path, recursive=True))
            folders = [folder for folder in folders if os.path.isdir(folder)]
            if not folders:
                raise UserError(f"there is no folder {path}; {_LAYOUT}")
            for folder in folders:
                real = os.path.realpath(folder)
                found.pop(real, None)
                found[real] = folder
        return list(found.values())

    @classmethod
    def listed(cls, paths: Sequence[str]) -> Iterator[FileStat]:
        """Every file of every episode, by root."""
        for root in cls.roots(paths):
            for entry in entries(root):
                if not entry.name.startswith("_") and os.path.isdir(entry.path):
                    for file in walk(entry.path, f"{entry.name}/"):
                        yield replace(file, name=f"{root}\0{file.name}")

    @classmethod
    def find(cls, paths: Sequence[str], run_bytes: float, cache: HashCache) -> Found:
        """All episodes under `paths`, with the hash of every file in their folders."""
        units, replaced, without_rows = cls.episodes(paths)
        contents = []
        for unit, files in _with_files(units, cache):
            hashes = [[file.name, content(file, cache)] for file in files]
            images = {
                file.name: (file.size, file.mtime_ns, sha256)
                for file, (_, sha256) in zip(files, hashes, strict=True)
                if file.name not in NOT_IMAGES
            }
            size = sum(file.size for file in files)
            contents.append(Content.of(unit, hashes, size, images))
        return Found(contents, replaced, without_rows)

    @classmethod
    def episodes(cls, paths: Sequence[str]) -> tuple[list[Unit], int, int]:
        """The episodes by name, how many were replaced, and folders without rows.

        `UserError` when a path is missing or there is no episode.
        """
        by_name: dict[str, Unit] = {}
        replaced = without_rows = 0
        for root in cls.roots(paths):
            with os.scandir(root) as found:
                names = [entry.name for entry in found if not entry.name.startswith("_")]
            for name in names:
                folder = Path(root, name)
                if not folder.is_dir():
                    continue
                if not _is_utf8(name):
                    raise UserError(
                        f"{root} holds a folder {name!r}: its name is no UTF-8; rename it"
                    )
                if not any((folder / rows).is_file() for rows in ROWS_NAMES):
                    without_rows += 1
                    continue
                replaced += name in by_name
                by_name[name] = Unit(name, Path(root))
        if not by_name:
            raise UserError(
                f"no episode in {', '.join(paths)}; {_LAYOUT} (or rows.jsonl.gz, rows.jsonl.zst)"
            )
        return [by_name[name] for name in sorted(by_name)], replaced, without_rows

    def describe(self, unit: Unit) -> dict[str, Any] | None:
        """What episode.json says; None where it is missing or broken."""
        path = unit.folder / "episode.json"
        try:
            if not path.is_file():
                return None
            described = json.loads(path.read_bytes().removeprefix(BOM))
            json.dumps(described, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except (OSError, ValueError, RecursionError):
            return None
        return described if isinstance(described, dict) else None

    def lines(self, unit: Unit) -> Iterator[Line]:
        """Every line of the episode's rows that is not blank."""
        for name in ROWS_NAMES:
            path = unit.folder / name
            if path.is_file():
                yield from read_lines(path, f"{unit.name}/{name}")

    def draft(self, record: dict[str, Any], line: Line, unit: Unit) -> Draft:
        """The record as it is; where it names no family, it takes the source's."""
        task_id = record.get("task_id")
        if isinstance(task_id, str) and task_id != unit.name:
            message = f"task_id is {task_id!r} in the episode folder {unit.name!r}"
            raise Problem("id_mismatch", message)
        if self.family is not None and record.get("family") is None:
            return Draft({**record, "family": self.family}, record)
        return Draft(record, record)


def _with_files(units: Sequence[Unit], cache: HashCache) -> Iterator[tuple[Unit, list[FileStat]]]:
    """Each unit with its files, some units at a time, so that files can be hashed side by side."""
    for start in range(0, len(units), _HASHED_TOGETHER):
        together = [
            (unit, list(walk(str(unit.path)))) for unit in units[start : start + _HASHED_TOGETHER]
        ]
        cache.read_ahead([file for _, files in together for file in files])
        yield from together


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
