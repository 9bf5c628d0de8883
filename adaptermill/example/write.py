"""Writes example episodes into a replay root: a folder per episode, each whole or not there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from adaptermill.errors import UserError
from adaptermill.example.episodes import AGENT, draw_episode

# Episodes that one job of a worker draws.
_CHUNK = 50


@dataclass
class Written:
    """What became of the episodes: new or changed ones, ones that were there, and rows in all."""

    names: list[str] = field(default_factory=list)
    written: int = 0
    kept: int = 0
    removed: int = 0
    rows: dict[str, int] = field(default_factory=dict)

    def add(self, other: Written) -> None:
        self.names += other.names
        self.written += other.written
        self.kept += other.kept
        for family, count in other.rows.items():
            self.rows[family] = self.rows.get(family, 0) + count


def write_episodes(
    folder: Path, episodes: int, seed: int, jobs: int = 1, image_bytes: int = 0
) -> Written:
    """Makes `folder` hold exactly the first `episodes` of the set that `seed` names.

    Episodes that are there with the same bytes are left alone; example episodes of another set are
    removed. `UserError` when the folder holds episodes that are not the example's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    total = Written()
    chunks = [
        (folder, range(start, min(start + _CHUNK, episodes)), seed, image_bytes)
        for start in range(0, episodes, _CHUNK)
    ]
    if jobs == 1 or len(chunks) == 1:
        for chunk in chunks:
            total.add(_write(*chunk))
    else:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as workers:
            for part in workers.map(_write, *zip(*chunks, strict=True)):
                total.add(part)
    total.removed = _remove_others(folder, set(total.names))
    return total


def _write(folder: Path, indices: Iterable[int], seed: int, image_bytes: int) -> Written:
    done = Written()
    for index in indices:
        episode = draw_episode(seed, index)
        done.names.append(episode.task_id)
        for row in episode.rows:
            done.rows[row["family"]] = done.rows.get(row["family"], 0) + 1
        files = episode.files(image_bytes)
        place = folder / episode.task_id
        if _holds(place, files):
            done.kept += 1
        else:
            _put(place, files)
            done.written += 1
    return done


def _holds(place: Path, files: dict[str, bytes]) -> bool:
    try:
        return sorted(os.listdir(place)) == sorted(files) and all(
            (place / name).read_bytes() == data for name, data in files.items()
        )
    except FileNotFoundError:
        return False


def _put(place: Path, files: dict[str, bytes]) -> None:
    # Readers of replay roots pass over names that begin with an underscore.
    temporary = place.with_name(f"_{place.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    for name, data in files.items():
        (temporary / name).write_bytes(data)
    if place.exists():
        shutil.rmtree(place)
    temporary.rename(place)


def _remove_others(folder: Path, names: set[str]) -> int:
    others = [
        Path(entry.path)
        for entry in os.scandir(folder)
        if entry.is_dir() and entry.name not in names
    ]
    for place in others:
        if not place.name.startswith("_") and not _is_example(place):
            raise UserError(
                f"{place} is not an episode of the example; give the example a folder of its own"
            )
    for place in others:
        shutil.rmtree(place)
    return len(others)


def _is_example(place: Path) -> bool:
    try:
        return json.loads((place / "episode.json").read_bytes()).get("agent") == AGENT
    except (OSError, ValueError, AttributeError):
        return False
