"""Lines of a JSONL file, plain or compressed, with bounded memory and without losing one.

Lines end at a line feed and nowhere else: U+2028, form feeds and the like are data. A byte order
mark, carriage returns at a line's end, blank lines and a missing last line feed are passed over.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import zstandard

from adaptermill.rows.readers.reader import Line

# Longer lines are refused unread: no row needs as much, and one would not fit into bounded memory.
MAX_LINE_BYTES = 64_000_000
_BLOCK = 1 << 20
# Zstandard can unfold 4 bytes to 128 KiB, so compressed blocks are kept small.
_ZSTD_BLOCK = 2048
_BOM = b"\xef\xbb\xbf"
_UNREADABLE = (OSError, EOFError, zlib.error, zstandard.ZstdError)


def read_lines(path: Path, name: str) -> Iterator[Line]:
    """The lines of `path` that are not blank, as lines of the file `name`.

    Where the file cannot be read on (a compressed file that was cut, a disk error), one last line
    with the reason `file_unreadable` stands for the rest.
    """
    number, parts, size = 1, [], 0
    try:
        for block in _blocks(path):
            *ends, rest = block.split(b"\n")
            for end in ends:
                line = _line(name, number, [*parts, end], size + len(end))
                if line is not None:
                    yield line
                number, parts, size = number + 1, [], 0
            size += len(rest)
            # Of a line that is too long, its beginning is enough for the excerpt.
            if rest and (size <= MAX_LINE_BYTES or not parts):
                parts.append(rest)
    except _UNREADABLE as error:
        message = f"the file cannot be read on from here: {error}"
        yield Line(name, number, b"".join(parts), "file_unreadable", message)
        return
    line = _line(name, number, parts, size)
    if line is not None:
        yield line


def _line(name: str, number: int, parts: list[bytes], size: int) -> Line | None:
    data = b"".join(parts)
    if number == 1:
        data = data.removeprefix(_BOM)
    if size > MAX_LINE_BYTES:
        message = f"the line has {size} bytes, more than {MAX_LINE_BYTES}"
        return Line(name, number, data[:_BLOCK], "line_too_long", message)
    data = data.rstrip(b"\r")
    return Line(name, number, data) if data.strip() else None


def _blocks(path: Path) -> Iterator[bytes]:
    if path.suffix == ".zst":
        yield from _zstd_blocks(path)
        return
    with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as stream:
        # Unlike read(), read1() hands over what there is before a cut.
        while block := stream.read1(_BLOCK):
            yield block


def _zstd_blocks(path: Path) -> Iterator[bytes]:
    """All frames of the file; unlike the library's reader it notices a frame that is cut."""
    frame = None
    with open(path, "rb") as stream:
        while block := stream.read(_ZSTD_BLOCK):
            while block:
                if frame is None:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(block)
                block = frame.unused_data if frame.eof else b""
                if frame.eof:
                    frame = None
    if frame is not None:
        raise EOFError("the last Zstandard frame is incomplete")
