"""The bytes of an image that a row names: a file beside the row, or a data: URL; nothing else."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from functools import lru_cache
from pathlib import Path

from adaptermill.rows.records import Problem

_BLOCK = 1 << 16
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# A name of which only its being a symlink could lead elsewhere.
_PLAIN_NAME = re.compile(r"[\w-][\w. -]*", re.ASCII)
_DATA_URL = re.compile(r"data:[^,;]*(;[^,;]*)*;base64,", re.IGNORECASE)


@lru_cache(maxsize=8)
def _home(folder: str) -> str:
    return os.path.realpath(folder)


def is_data_url(url: str) -> bool:
    return url[:5].lower() == "data:"


Stat = tuple[int, int]


def read_image(url: str, folder: Path, most: int) -> tuple[bytes, str | None, Stat | None]:
    """The bytes, the file's name below the episode's `folder`, and its size and mtime in ns.

    A data: URL has neither name nor stat.

    Raises `Problem` for what is missing, lies outside the folder, is not a file, or has more than
    `most` bytes. Nothing outside the folder is opened, and nothing is fetched.
    """
    if is_data_url(url):
        return _from_data_url(url), None, None
    data, seen = _from_file(url, folder, most)
    return data, url, seen


def locate(url: str, folder: Path) -> str:
    """Where the file that `url` names lies; raises `Problem` for what is not below `folder`."""
    if os.path.isabs(url) or url.startswith("~"):
        raise Problem("path_outside_episode", f"{url} is an absolute path; it is not opened")
    if _SCHEME.match(url):
        raise Problem("remote_url", f"{url[:100]} is not beside the rows; it is not fetched")
    try:
        home = _home(str(folder))
        place = f"{home}/{url}"
        if _PLAIN_NAME.fullmatch(url) and not os.path.islink(place):
            return place
        real = os.path.realpath(place)
        inside = os.path.commonpath([real, home]) == home
    except (OSError, ValueError) as error:
        raise _missing(url, error) from None
    if not inside:
        raise Problem("path_outside_episode", f"{url} leads out of the episode's folder")
    return real


def _from_data_url(url: str) -> bytes:
    header = _DATA_URL.match(url)
    if header is None:
        raise Problem("image_not_an_image", "a data: URL without `;base64,`")
    try:
        return base64.b64decode(url[header.end() :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise Problem("image_truncated", f"the data: URL is not base64: {error}") from None


def _from_file(url: str, folder: Path, most: int) -> tuple[bytes, Stat]:
    real = locate(url, folder)
    try:
        # Opening a pipe would wait for whoever writes to it.
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise Problem("image_missing", f"{url!r} is no file")
            if status.st_size > most:
                message = f"{url}: the file is larger than any image within ingest.image.max_pixels"
                raise Problem("image_too_large", message)
            data = os.read(handle, status.st_size)
            while block := os.read(handle, _BLOCK):
                data += block  # it grew, or the system gives it in parts
        finally:
            os.close(handle)
        return data, (status.st_size, status.st_mtime_ns)
    except (OSError, ValueError) as error:
        raise _missing(url, error) from None


def _missing(url: str, error: Exception) -> Problem:
    reason = getattr(error, "strerror", None) or str(error)
    return Problem("image_missing", f"{url}: {reason}")
