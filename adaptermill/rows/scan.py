"""What lies on disk: content hashes of episodes, and the shards they make.

Shards are the leaves of a binary trie over the MD5 of the episodes' names, split while a leaf holds
more than `shard_mb` and more than one episode. So the number and borders of shards depend on the
content alone, and new episodes leave all other shards as they were. A shard's name ends in the hash
of all it is made of: a shard whose file exists is up to date.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adaptermill.errors import UserError
from adaptermill.hashing import FileStat, HashCache
from adaptermill.provenance import key
from adaptermill.rows.readers import READERS
from adaptermill.rows.readers.reader import Episode

SHARD_KEY_LENGTH = 12


def stat_digest(paths: Sequence[str], format: str) -> str:
    """A hash of (name, size, mtime) of every file under `paths`: changes when an edit may have.

    Reads no file. Missing paths give a digest too; the scan then says what is wrong.
    """
    found = hashlib.sha256()
    try:
        roots = READERS[format].roots(paths)
    except UserError:
        roots = []
    for root in roots:
        found.update(os.fsencode(root) + b"\0")
        for folder in _folders(root):
            for file in _files(f"{root}/{folder}", f"{folder}/"):
                found.update(f"{file.name}\0{file.size}\0{file.mtime_ns}\0".encode())
    return found.hexdigest()[:32]


def _folders(root: str) -> Iterator[str]:
    """Names of the episode folders of a root; a symlink to a folder is one."""
    for entry in _entries(root):
        if not entry.name.startswith("_") and os.path.isdir(entry.path):
            yield entry.name


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror}") from None


def _files(folder: str, prefix: str = "") -> Iterator[FileStat]:
    """All regular files below `folder`, in the order of their names.

    Symlinked folders inside are not followed: they may lead back up, and what they lead to is
    either inside already or refused.
    """
    for entry in _entries(folder):
        # A name that is not UTF-8 must not stop the scan.
        name = prefix + os.fsencode(entry.name).decode("utf-8", "backslashreplace")
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path, f"{name}/")
            continue
        try:
            status = entry.stat() if entry.is_file() else None
        except OSError:
            continue  # deleted since it was listed, or a link to itself
        if status is not None:
            yield FileStat(name, entry.path, status.st_size, status.st_mtime_ns)


def scan(settings: Mapping[str, Any], cache: HashCache) -> dict[str, Any]:
    """The manifest of one source: its shards, each with its episodes and their content hashes."""
    reader = READERS[settings["format"]]
    found = reader.find(settings["paths"])
    hashes, sizes = {}, {}
    for episode in found.episodes:
        files = list(_files(str(episode.folder)))
        hashes[episode.task_id] = key(files=[[f.name, _content(f, cache)] for f in files])
        sizes[episode.task_id] = sum(file.size for file in files)
    made = {"settings": settings["ingest"], "code": settings["ingest_code"]}
    shards = []
    for bits, episodes in _leaves(found.episodes, sizes, settings["shard_mb"] * 1e6):
        listed = [[episode.task_id, hashes[episode.task_id]] for episode in episodes]
        shards.append(
            {
                "name": f"s{bits}-{key(episodes=listed, **made)[:SHARD_KEY_LENGTH]}",
                "bytes": sum(sizes[episode.task_id] for episode in episodes),
                "episodes": [
                    {"task_id": episode.task_id, "folder": str(episode.folder)}
                    for episode in episodes
                ],
            }
        )
    return {
        "source": settings["source"],
        "format": settings["format"],
        "episodes": len(found.episodes),
        "replaced": found.replaced,
        "folders_without_rows": found.without_rows,
        "bytes": sum(sizes.values()),
        "shards": shards,
    }


def _content(file: FileStat, cache: HashCache) -> str:
    try:
        return cache.sha256(file)
    except OSError as error:  # its lines are quarantined when the shard is made
        return f"unreadable: {error.strerror}"


def _leaves(
    episodes: Sequence[Episode], sizes: Mapping[str, int], limit: float
) -> Iterator[tuple[str, list[Episode]]]:
    """The leaves of the trie from left to right: their bits and their episodes by name."""
    path = {
        episode.task_id: f"{int(hashlib.md5(episode.task_id.encode()).hexdigest(), 16):0128b}"
        for episode in episodes
    }

    def descend(bits: str, members: list[Episode]) -> Iterator[tuple[str, list[Episode]]]:
        total = sum(sizes[episode.task_id] for episode in members)
        if len(members) <= 1 or total <= limit or len(bits) == 128:
            if members:
                yield bits, members
            return
        for bit in "01":
            yield from descend(
                bits + bit, [e for e in members if path[e.task_id][len(bits)] == bit]
            )

    yield from descend("", list(episodes))
