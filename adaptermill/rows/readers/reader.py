"""What every reader gives: episodes that were found, and their lines one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Episode:
    """The unit that is hashed and ingested as a whole: a folder with the files of one episode."""

    task_id: str
    folder: Path


@dataclass(frozen=True)
class Found:
    """The episodes under some paths, sorted by name.

    `replaced` counts episodes that a later path replaced, `without_rows` folders with no rows.
    """

    episodes: list[Episode]
    replaced: int
    without_rows: int


@dataclass(frozen=True)
class Line:
    """One line that is not blank, or why there is none.

    `file` is the path below the source's root, `number` counts from 1. With a `reason` (a
    quarantine code) and its `message`, `data` is what could be read of the line.
    """

    file: str
    number: int
    data: bytes
    reason: str | None = None
    message: str = ""


class Reader(Protocol):
    """One input format. Readers keep no state."""

    @staticmethod
    def roots(paths: Sequence[str]) -> list[str]:
        """The folders that a source's `paths` name, in order; `UserError` when one is missing."""

    @classmethod
    def find(cls, paths: Sequence[str]) -> Found:
        """All episodes under `paths`; `UserError` when there is none."""

    @staticmethod
    def describe(episode: Episode) -> dict[str, Any] | None:
        """What is recorded of the episode as a whole; None where nothing readable is."""

    @staticmethod
    def lines(episode: Episode) -> Iterator[Line]:
        """Every line of the episode's rows that is not blank."""
