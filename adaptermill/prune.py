"""`python -m adaptermill prune`: removes finished and working state that no current target needs.

What the configuration asks for stays: finished adapters, evaluations, measured shards, reference
values and example bases under their keys, and the state of runs that are not finished. While a key
cannot be known (an adapter that `status` calls undecided), nothing of its kind is removed.
Published products (`results/adapters`, `results/evaluation`, tables) are never touched.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from adaptermill.errors import UserError
from adaptermill.pipeline import Pipeline, locked
from adaptermill.sizes import readable, size_on_disk
from adaptermill.specs import RESULTS, STORE, TRAINING_SCRIPTS, WORK
from adaptermill.status import UNDECIDED, AdapterStatus, statuses


@dataclass(frozen=True)
class Leftover:
    """Something that may go: a file or folder, its size in bytes, and why."""

    path: Path
    size: int
    why: str


@dataclass(frozen=True)
class Found:
    """What may go, and what is kept although it may be old, with the reason."""

    leftovers: list[Leftover]
    kept: list[str]


def find(pipeline: Pipeline) -> Found:
    """Looks for what no current target needs; removes nothing.

    `UserError` while Snakemake works in this folder: what it makes now looks like nobody's.
    """
    if locked():
        raise UserError(
            "Snakemake works in this folder (or was killed: then run `snakemake --unlock`); "
            "prune when it has ended"
        )
    paths: list[tuple[Path, str]] = []
    kept: list[str] = []
    known = statuses(pipeline)
    undecided = [each.name for each in known if each.state == UNDECIDED]
    if undecided:
        kept.append(
            "finished adapters, evaluations and measured shards are kept: which of them are "
            f"needed is known after the next build (undecided: {', '.join(undecided)})"
        )
    else:
        paths += _superseded(pipeline, known)
    if pipeline.config.base.model == "example":
        wanted = {Path(pipeline.specs.base_folder()).name}
        paths += _others(STORE / "bases", wanted, "an example base of other settings or code")
    paths += _signatures_of_nobody(pipeline)
    paths += _specs_of_nobody(pipeline)
    paths += [(path, "left by a job that was killed") for path in _temporary()]
    return Found([Leftover(path, size_on_disk(path), why) for path, why in paths], kept)


def _superseded(pipeline: Pipeline, known: list[AdapterStatus]) -> Iterator[tuple[Path, str]]:
    """Products and states of runs whose keys nothing asks for; all keys are known here."""
    adapters = {str(each.key) for each in known}
    evaluations = {
        pipeline.evaluation_key_on_disk(name) for name in ["base", *pipeline.config.trained]
    }
    yield from _others(STORE / "adapters", adapters, "no adapter has this key now")
    yield from _others(WORK / "training", adapters, "a run that nothing asks for")
    if None not in evaluations:
        names = {str(key) for key in evaluations}
        files = {f"{name}.parquet" for name in names}
        yield from _others(STORE / "evaluations", files, "no evaluation has this key now")
        yield from _others(WORK / "evaluation", names, "a run that nothing asks for")
    measured = pipeline.measures_on_disk()
    if measured is not None:
        for folder in _entries(STORE / "measures"):
            wanted = {path.name for path in measured if path.parent == folder}
            if wanted:
                yield from _others(folder, wanted, "a shard that is not there any more")
            else:
                yield folder, "measured with another base or other code"
    now = [(pipeline.base_on_disk(), pipeline.specs.code(s)) for s in TRAINING_SCRIPTS]
    for folder in _entries(STORE / "references"):
        if _belongs_to(folder) not in now:
            yield folder, "reference values of another base or other code"


def _belongs_to(references: Path) -> tuple[str, str] | None:
    """The base and code that a folder of reference values was made with."""
    try:
        about = json.loads((references / "reference.json").read_text(encoding="utf-8"))
        return about["base"], about["code"]
    except (OSError, ValueError, KeyError):
        return None


def _others(folder: Path, wanted: Iterable[str], why: str) -> Iterator[tuple[Path, str]]:
    wanted = set(wanted)
    for path in _entries(folder):
        if path.name not in wanted and not path.name.startswith(".") and not _is_held(path):
            yield path, why


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _is_held(state: Path) -> bool:
    """Whether a trainer that outlived its Snakemake still writes into this state folder."""
    try:
        with open(state / "lock", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _signatures_of_nobody(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    near = [pipeline.config.split.near_duplicates]
    near += [each.dedup.near for each in pipeline.config.recipes.values() if each.dedup.near]
    wanted = {Path(pipeline.signatures(settings)).name for settings in near}
    yield from _others(WORK / "signatures", wanted, "signatures of other settings or code")
    shards = pipeline.shards_on_disk()
    if shards is not None:
        files = {f"{source}__{shard}.parquet" for source, shard in shards}
        for name in sorted(wanted):
            folder = WORK / "signatures" / name
            yield from _others(folder, files, "a shard that is not there any more")


def _specs_of_nobody(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    wanted = {Path(pipeline.spec(*each)) for each in pipeline.specs.all()}
    for path in sorted((WORK / "specs").rglob("*.json")):
        if path not in wanted:
            yield path, "settings of something that is not in the configuration"


def _temporary() -> Iterator[Path]:
    """`.name.pid.tmp` beside a product: work that was never put in its place."""
    for place in (STORE, WORK, RESULTS / "adapters", RESULTS / "evaluation"):
        for folder, folders, files in os.walk(place):
            inside = [name for name in folders if _is_temporary(name)]
            folders[:] = [name for name in folders if name not in inside]
            yield from (Path(folder, name) for name in sorted(inside))
            yield from (Path(folder, name) for name in sorted(files) if _is_temporary(name))


def _is_temporary(name: str) -> bool:
    parts = name.split(".")
    return name.startswith(".") and parts[-1] == "tmp" and len(parts) > 3 and parts[-2].isdigit()


def remove(leftovers: Iterable[Leftover]) -> None:
    for each in leftovers:
        if each.path.is_dir():
            shutil.rmtree(each.path)
        else:
            each.path.unlink(missing_ok=True)


def report(found: Found) -> str:
    """What `find` found, a line each, with the sum."""
    lines = [f"{readable(each.size):>9}  {each.path}  ({each.why})" for each in found.leftovers]
    total = readable(sum(each.size for each in found.leftovers))
    lines += found.kept
    return "\n".join([*lines, f"{len(found.leftovers)} things, {total}"])
