"""Replay roots: a folder per episode with `episode.json`, `rows.jsonl` and screenshots.

`rows.jsonl` may be compressed (`.gz`, `.zst`). Folders whose name starts with `_` are no episodes,
symlinked folders are, and of several roots a later one's episode replaces an earlier one's.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from adaptermill.errors import UserError
from adaptermill.rows.readers.lines import read_lines
from adaptermill.rows.readers.reader import Episode, Found, Line

ROWS_NAMES = ("rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst")
_BOM = b"\xef\xbb\xbf"
_LAYOUT = "a replay source's path is a folder with one folder per episode, each with a rows.jsonl"


class ReplayReader:
    """Reads the episodes under one or many roots."""

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
    def find(cls, paths: Sequence[str]) -> Found:
        """All episodes under `paths`. `UserError` when a path is missing or there is no episode."""
        by_name: dict[str, Episode] = {}
        replaced = without_rows = 0
        for root in cls.roots(paths):
            with os.scandir(root) as entries:
                names = [entry.name for entry in entries if not entry.name.startswith("_")]
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
                by_name[name] = Episode(name, folder)
        if not by_name:
            raise UserError(
                f"no episode in {', '.join(paths)}; {_LAYOUT} (or rows.jsonl.gz, rows.jsonl.zst)"
            )
        return Found([by_name[name] for name in sorted(by_name)], replaced, without_rows)

    @staticmethod
    def describe(episode: Episode) -> dict[str, Any] | None:
        """What episode.json says; None where it is missing or broken."""
        path = episode.folder / "episode.json"
        try:
            if not path.is_file():
                return None
            described = json.loads(path.read_bytes().removeprefix(_BOM))
            json.dumps(described, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except (OSError, ValueError, RecursionError):
            return None
        return described if isinstance(described, dict) else None

    @staticmethod
    def lines(episode: Episode) -> Iterator[Line]:
        """Every line of the episode's rows that is not blank."""
        for name in ROWS_NAMES:
            path = episode.folder / name
            if path.is_file():
                yield from read_lines(path, f"{episode.task_id}/{name}")


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
