"""Elements of a JSON array in a file, one by one, with bounded memory.

The elements are only told apart here, not parsed: what is between two commas of the array is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from adaptermill.rows.readers import lines, streams
from adaptermill.rows.readers.lines import BOM, Piece

# A whole string, or what opens, closes and parts things outside of strings. A lone quote is a
# string whose end is not read yet.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{},]', re.DOTALL)


def is_array(blocks: Iterator[bytes]) -> bool:
    """Whether the first thing in the file is an array's bracket."""
    begin = b""
    try:
        for block in blocks:
            begin += block
            if begin.removeprefix(BOM).strip():
                break
    except streams.UNREADABLE:
        pass  # reading it as lines says so
    return begin.removeprefix(BOM).lstrip().startswith(b"[")


def split(blocks: Iterator[bytes], *, inside: bool = False, to_end: bool = True) -> Iterator[Piece]:
    """The elements of the array.

    With `inside` the blocks begin behind a comma of the array; with `to_end` they are to end with
    it. What stands behind the array, and an array that does not end, are pieces with a reason.
    """
    text, position, begin, size = b"", 0, 0, 0
    depth, after_comma, ended = int(inside), inside, False
    try:
        for block in blocks:
            text, position, begin = text[begin:] + block, position - begin, 0
            while not ended:
                token = _TOKEN.search(text, position)
                kind = b'"' if token is None else token[0]
                if kind == b'"':  # what follows is not read yet
                    position = len(text) if token is None else token.start()
                    break
                position = token.end()
                if kind in b"[{":
                    depth += 1
                    if depth == 1:
                        size, begin = position, position
                elif depth == 1 and kind in b"]},":
                    ended = kind != b","
                    data = text[begin : token.start()].strip()
                    size += position - begin
                    begin = position
                    if data:
                        yield Piece(data, size)
                        size = 0
                    elif after_comma or not ended:
                        yield Piece(b"", size, "json_syntax", "there is nothing between two commas")
                        size = 0
                    after_comma = True
                elif kind in b"]}":
                    depth -= 1
            if len(text) - begin > lines.MAX_LINE_BYTES:
                message = f"an element has more than {lines.MAX_LINE_BYTES} bytes"
                yield Piece(text[begin:], size + len(text) - begin, "line_too_long", message)
                return
    except streams.UNREADABLE as error:
        message = f"the file cannot be read on from here: {error}"
        yield Piece(text[begin:].strip(), size + len(text) - begin, "file_unreadable", message)
        return
    rest = text[begin:].strip()
    if rest or (to_end and not ended):
        wrong = "text stands behind the array" if ended else "the array does not end"
        yield Piece(rest, size + len(text) - begin, "json_syntax", wrong)
