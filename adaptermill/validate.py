"""What can be known to be wrong before anything is built: inputs, the base, and disk space."""

from __future__ import annotations

import glob
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from adaptermill.config import Config
from adaptermill.errors import UserError
from adaptermill.rows.readers import READERS
from adaptermill.sizes import readable
from adaptermill.sources import BrowserUseSource, FileSource, ReplaySource, TrajectoriesSource

# Bytes under results/ per byte of raw input: shards hold the screenshots once more.
RESULTS_PER_INPUT = 1.3


@dataclass(frozen=True)
class Finding:
    """One thing that validation has to say. `level` is `error`, `warning` or `note`."""

    level: str
    text: str


def findings(config: Config) -> list[Finding]:
    """Checks what the configuration names on this machine; builds and writes nothing."""
    found: list[Finding] = []
    needed = 0
    for source in config.sources:
        if isinstance(source, ReplaySource):
            needed += _check_replay(source, found)
        elif isinstance(source, (FileSource, TrajectoriesSource)):
            needed += _check_files(source, found)
    _check_base(config.base.model, found)
    for name, recipe in config.recipes.items():
        if recipe.episode_ids is not None and not Path(recipe.episode_ids).is_file():
            text = f"adapters.{name}.episode_ids: there is no file {recipe.episode_ids}"
            found.append(Finding("error", text))
    free = shutil.disk_usage(".").free
    wanted = int(needed * RESULTS_PER_INPUT)
    if wanted > free:
        text = (
            f"the sources need about {readable(wanted)} under results/, and {readable(free)} are "
            "free; free some, or run with --directory on a larger disk"
        )
        found.append(Finding("error", text))
    elif needed:
        found.append(
            Finding("note", f"about {readable(wanted)} of {readable(free)} free disk are needed")
        )
    return found


def _check_replay(source: ReplaySource, found: list[Finding]) -> int:
    """Notes what is wrong with the source's paths; returns the bytes that lie there."""
    total = 0
    for path in source.paths:
        roots = sorted(glob.glob(path)) or [path]
        for root in roots:
            if not os.path.isdir(root):
                text = (
                    f"sources.{source.name}.path: there is no folder {root}; it should hold one "
                    "folder per episode, each with a rows.jsonl"
                )
                found.append(Finding("error", text))
                continue
            episodes, size = _count(root)
            total += size
            if episodes == 0:
                text = (
                    f"sources.{source.name}.path: no episode in {root}; an episode is a folder "
                    "with a rows.jsonl (or .jsonl.gz, .jsonl.zst)"
                )
                found.append(Finding("error", text))
            else:
                text = f"source {source.name}: {episodes} episodes, {readable(size)} in {root}"
                found.append(Finding("note", text))
    return total


def _check_files(source: FileSource | TrajectoriesSource, found: list[Finding]) -> int:
    """Notes what is wrong with the source's files; returns their bytes, without images beside."""
    prompt = source.system_prompt if isinstance(source, BrowserUseSource) else None
    if prompt is not None and not os.path.isfile(prompt):
        text = f"sources.{source.name}.system_prompt: there is no file {prompt}"
        found.append(Finding("error", text))
    try:
        sizes = [file.size for file in READERS[source.format].listed(source.paths)]
    except UserError as error:
        found.append(Finding("error", f"sources.{source.name}.path: {error}"))
        return 0
    found.append(
        Finding("note", f"source {source.name}: {len(sizes)} files, {readable(sum(sizes))}")
    )
    return sum(sizes)


def _count(root: str) -> tuple[int, int]:
    episodes = size = 0
    for folder in os.scandir(root):
        if folder.name.startswith("_") or not folder.is_dir():
            continue
        names = [(entry.name, entry.stat().st_size) for entry in os.scandir(folder.path)]
        episodes += any(name.startswith("rows.jsonl") for name, _ in names)
        size += sum(bytes_ for _, bytes_ in names)
    return episodes, size


def _check_base(model: str, found: list[Finding]) -> None:
    if model == "example":
        return
    folder = Path(model)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            text = f"base.model: {model} is a folder but no model: it has no config.json"
            found.append(Finding("error", text))
    elif folder.is_absolute() or model.startswith(".") or model.count("/") != 1:
        text = (
            f"base.model: there is no folder {model}, and it is no hub id either "
            "(<owner>/<name>); `example` is the shipped base"
        )
        found.append(Finding("error", text))
