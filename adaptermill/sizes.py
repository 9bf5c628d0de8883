"""Sizes on disk, and how people read them."""

from __future__ import annotations

from pathlib import Path


def size_on_disk(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def readable(count: float) -> str:
    """A number of bytes in the unit that leaves at most three digits: `128 MB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
