"""Files below a folder, and what is in them, as a scan sees them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from adaptermill.errors import UserError
from adaptermill.hashing import FileStat, HashCache


def entries(folder: str) -> list[os.DirEntry[str]]:
    """What lies in a folder, by name; `UserError` when it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror}") from None


def walk(folder: str, prefix: str = "") -> Iterator[FileStat]:
    """All regular files below `folder`, in the order of their names.

    Symlinked folders inside are not followed: they may lead back up, and what they lead to is
    either inside already or refused.
    """
    for entry in entries(folder):
        # A name that is not UTF-8 must not stop the scan.
        name = prefix + os.fsencode(entry.name).decode("utf-8", "backslashreplace")
        if entry.is_dir(follow_symlinks=False):
            yield from walk(entry.path, f"{name}/")
            continue
        try:
            status = entry.stat() if entry.is_file() else None
        except OSError:
            continue  # deleted since it was listed, or a link to itself
        if status is not None:
            yield FileStat(name, entry.path, status.st_size, status.st_mtime_ns)


def content(file: FileStat, cache: HashCache) -> str:
    """The file's SHA-256, or why it has none."""
    try:
        return cache.sha256(file)
    except OSError as error:  # its lines are quarantined when the shard is made
        return f"unreadable: {error.strerror}"
