"""Files that are either whole or not there: written beside their place, flushed, then renamed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path beside `path`; on success it is flushed and renamed to `path`.

    On an error the temporary file is removed and `path` stays what it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a new temporary folder beside `path`; on success it takes the place of `path`."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for name in temporary.rglob("*"):
            if name.is_file():
                with open(name, "rb") as handle:
                    os.fsync(handle.fileno())
        if path.exists():
            shutil.rmtree(path)
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes UTF-8 text whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike, value: object) -> None:
    """Writes `value` as indented JSON (keys in the order given), whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_if_changed(path: str | os.PathLike, text: str) -> bool:
    """Writes `text` unless the file holds it already (then its mtime stays). True when written."""
    path = Path(path)
    try:
        if path.read_text(encoding="utf-8") == text:
            return False
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    write_text(path, text)
    return True
