"""What lies on disk: content hashes of units, and the shards they make.

Shards are the leaves of a binary trie over the MD5 of the units' names, split while a leaf holds
more than `shard_mb` and more than one unit. So the number and borders of shards depend on the
content alone, and new episodes leave all other shards as they were. A shard's name ends in the hash
of all it is made of: a shard whose file exists is up to date.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from adaptermill.errors import UserError
from adaptermill.hashing import HashCache
from adaptermill.provenance import key
from adaptermill.rows.readers import READERS
from adaptermill.rows.readers.reader import Content

SHARD_KEY_LENGTH = 12
# A file with many episodes is cut into runs of about this share of a shard.
RUNS_IN_A_SHARD = 8


def stat_digest(paths: Sequence[str], format: str, cache: Path | None = None) -> str:
    """A hash of (name, size, mtime) of every file of a source: changes when an edit may have.

    Reads no file of the source. Images that lie elsewhere are known to `cache` (what the last scan
    left): while they are as it saw them, the digest is the one that scan was asked with. Missing
    paths give a digest too; the scan then says what is wrong.
    """
    listed = _listed(paths, format)
    if READERS[format].listed_is_all or cache is None or not cache.is_file():
        return listed
    known = HashCache(cache)
    # Only images are known by their plain path.
    images = {name: seen[:2] for name, seen in known.records() if name.startswith("/")}
    changed = [[name, *_stat(name)] for name, seen in images.items() if _stat(name) != seen]
    if changed:
        return key(listed=listed, changed=sorted(changed))
    seen, _, asked = known.state.partition(" ")
    return asked if asked and seen == listed else listed


def _listed(paths: Sequence[str], format: str) -> str:
    found = hashlib.sha256()
    try:
        for file in READERS[format].listed(paths):
            name = os.fsencode(file.name if READERS[format].listed_is_all else file.path)
            found.update(name + f"\0{file.size}\0{file.mtime_ns}\0".encode())
    except (UserError, OSError) as error:
        found.update(type(error).__name__.encode())
    return found.hexdigest()[:32]


def _stat(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def scan(settings: Mapping[str, Any], cache: HashCache) -> dict[str, Any]:
    """The manifest of one source: its shards, each with the contents of its units."""
    paths, shard_bytes = settings["paths"], settings["shard_mb"] * 1e6
    state = f"{_listed(paths, settings['format'])} {settings.get('files', '')}"
    found = READERS[settings["format"]].find(paths, shard_bytes / RUNS_IN_A_SHARD, cache)
    made = {"settings": settings["ingest"], "code": settings["ingest_code"]}
    shards = []
    for bits, contents in _leaves(found.contents, shard_bytes):
        # Neighbours in a file follow each other.
        contents = sorted(contents, key=lambda c: (c.unit.file, c.unit.start, c.unit.name))
        listed = [[content.unit.name, content.digest] for content in contents]
        shards.append(
            {
                "name": f"s{bits}-{key(episodes=listed, **made)[:SHARD_KEY_LENGTH]}",
                "bytes": sum(content.size for content in contents),
                "contents": contents,
            }
        )
    cache.state = state
    return {
        "source": settings["source"],
        "format": settings["format"],
        "units": len(found.contents),
        "replaced": found.replaced,
        "folders_without_rows": found.without_rows,
        "bytes": sum(content.size for content in found.contents),
        "shards": shards,
    }


def _leaves(contents: Sequence[Content], limit: float) -> Iterator[tuple[str, list[Content]]]:
    """The leaves of the trie from left to right: their bits and their units by name."""
    names = [content.unit.name for content in contents]
    path = {name: f"{int(hashlib.md5(name.encode()).hexdigest(), 16):0128b}" for name in names}

    def descend(bits: str, members: list[Content]) -> Iterator[tuple[str, list[Content]]]:
        total = sum(content.size for content in members)
        if len(members) <= 1 or total <= limit or len(bits) == 128:
            if members:
                yield bits, members
            return
        for bit in "01":
            yield from descend(
                bits + bit, [c for c in members if path[c.unit.name][len(bits)] == bit]
            )

    yield from descend("", list(contents))
