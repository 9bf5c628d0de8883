"""Which files a source's paths name, and the images that such a file leads to."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from adaptermill.errors import UserError
from adaptermill.hashing import FileStat, HashCache
from adaptermill.rows.attachments import is_data_url, locate
from adaptermill.rows.files import content
from adaptermill.rows.readers.reader import Content, Known, Unit
from adaptermill.rows.records import Problem


def named_files(paths: Sequence[str], patterns: Sequence[str], wanted: str) -> list[Path]:
    """The files that `paths` (files, folders or globs) name, each once, in order.

    In a folder those that match one of `patterns` count, unless their name starts with `_` or `.`.
    `wanted` says what should have been there; `UserError` names it where a path names nothing.
    """
    found: dict[str, Path] = {}
    for path in paths:
        places = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
        files = [file for place in places for file in _files(Path(place), patterns)]
        if not files:
            raise UserError(f"there is no file to read at {path}; {wanted}")
        for file in files:
            found.setdefault(os.path.realpath(file), file)
    return list(found.values())


def _files(place: Path, patterns: Sequence[str]) -> list[Path]:
    if not place.is_dir():
        return [place] if place.is_file() else []
    matches = {file for pattern in patterns for file in place.glob(pattern)}
    shown = [f for f in matches if not any(p.startswith(("_", ".")) for p in f.parts[-2:])]
    return sorted(file for file in shown if file.is_file())


def images_below(urls: Iterable[str], folder: Path) -> list[str]:
    """Those of the URLs that name a file below `folder`, each once, sorted."""
    found = set()
    for url in urls:
        try:
            if not is_data_url(url):
                locate(url, folder)
                found.add(url)
        except Problem:
            pass  # it is not opened; the row is refused when the shard is made
    return sorted(found)


def with_images(
    unit: Unit, own: list[str], size: int, names: Iterable[str], cache: HashCache
) -> Content:
    """The content of a unit that has `own` content of `size` bytes and leads to those images.

    An image that is missing is noted as such, so that its coming is noticed.
    """
    images: dict[str, Known] = {}
    for name in names:
        try:
            path = locate(name, unit.folder)
        except Problem:
            images[name] = (0, 0, "outside")
            continue
        try:
            file = FileStat.of(path)
        except OSError:
            cache.missing(path)
            images[name] = (0, 0, "missing")
            continue
        sha256 = content(file, cache) if os.path.isfile(path) else "no file"
        images[name] = (file.size, file.mtime_ns, sha256)
    hashes = [own, *([name, sha256] for name, (_, _, sha256) in images.items())]
    return Content.of(unit, hashes, size + sum(known[0] for known in images.values()), images)
