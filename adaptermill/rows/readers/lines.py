"""Lines of a JSONL file, plain or compressed, with bounded memory and without losing one.

Lines end at a line feed and nowhere else: U+2028, form feeds and the like are data. A byte order
mark, carriage returns at a line's end, blank lines and a missing last line feed are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from adaptermill.rows.readers import streams
from adaptermill.rows.readers.reader import Line

# Longer lines are refused unread: no row needs as much, and one would not fit into bounded memory.
MAX_LINE_BYTES = 64_000_000
BOM = b"\xef\xbb\xbf"
_EXCERPT_BYTES = 1 << 20


@dataclass(frozen=True)
class Piece:
    """One line as it stands in the file (or one element of an array), without its end.

    `size` counts the bytes up to the next piece's begin. Where something is wrong, `reason` and
    `message` say what, and `data` is what could be read.
    """

    data: bytes
    size: int
    reason: str | None = None
    message: str = ""


def read_lines(path: Path, name: str) -> Iterator[Line]:
    """The lines of `path` that are not blank, as lines of the file `name`.

    Where the file cannot be read on (a compressed file that was cut, a disk error), one last line
    with the reason `file_unreadable` stands for the rest.
    """
    return number_lines(split(streams.blocks(path)), name, 1)


def number_lines(pieces: Iterable[Piece], name: str, first: int) -> Iterator[Line]:
    """The pieces that are not blank as lines of the file `name`, counted from `first`."""
    for number, piece in enumerate(pieces, first):
        data = piece.data.removeprefix(BOM) if number == 1 else piece.data
        if piece.reason is not None:
            yield Line(name, number, data, piece.reason, piece.message)
            continue
        data = data.rstrip(b"\r")
        if data and not data.isspace():
            yield Line(name, number, data)


def split(blocks: Iterator[bytes]) -> Iterator[Piece]:
    """The bytes cut at their line feeds."""
    parts, size = [], 0
    try:
        for block in blocks:
            *ends, rest = block.split(b"\n")
            for end in ends:
                yield _piece([*parts, end], size + len(end), 1)
                parts, size = [], 0
            size += len(rest)
            # Of a line that is too long, its beginning is enough for the excerpt.
            if rest and (size <= MAX_LINE_BYTES or not parts):
                parts.append(rest)
    except streams.UNREADABLE as error:
        message = f"the file cannot be read on from here: {error}"
        yield Piece(b"".join(parts), size, "file_unreadable", message)
        return
    if size:
        yield _piece(parts, size, 0)


def _piece(parts: list[bytes], size: int, end: int) -> Piece:
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    if size > MAX_LINE_BYTES:
        message = f"the line has {size} bytes, more than {MAX_LINE_BYTES}"
        return Piece(data[:_EXCERPT_BYTES], size + end, "line_too_long", message)
    return Piece(data, size + end)
