"""The bytes of a file, plain or compressed, as blocks: all of them, or those of one range."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import zstandard

BLOCK = 1 << 20
# Zstandard can unfold 4 bytes to 128 KiB, so compressed blocks are kept small.
_ZSTD_BLOCK = 2048
UNREADABLE = (OSError, EOFError, zlib.error, zstandard.ZstdError)


def blocks(path: Path) -> Iterator[bytes]:
    """All of the file, decompressed; raises one of `UNREADABLE` where it cannot be read on."""
    if path.suffix == ".zst":
        yield from _zstd_blocks(path)
        return
    with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as stream:
        # Unlike read(), read1() hands over what there is before a cut.
        while block := stream.read1(BLOCK):
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


class Ranges:
    """Ranges of files, cheap when they are asked for in the order in which they lie there.

    A plain file is read at its place. A compressed one has to be unfolded from its beginning, so it
    is kept open, and unfolded again only for a range that lies before the last one.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._blocks: Iterator[bytes] = iter(())
        self._rest = b""
        self._position = 0

    def read(self, path: Path, start: int, end: int | None) -> Iterator[bytes]:
        """The bytes from `start` to `end` (None: to the end), in blocks."""
        if path.suffix in (".gz", ".zst"):
            return self._unfold(path, start, end)
        return _read_plain(path, start, end)

    def _unfold(self, path: Path, start: int, end: int | None) -> Iterator[bytes]:
        if path != self._path or start < self._position:
            self._path, self._blocks = path, blocks(path)
            self._rest, self._position = b"", 0
        while end is None or self._position < end:
            block = self._rest or next(self._blocks, None)
            if block is None:
                return
            stop = len(block) if end is None else min(len(block), end - self._position)
            first = min(max(0, start - self._position), stop)
            self._position += stop
            self._rest = block[stop:]
            if first < stop:
                yield block[first:stop]


def _read_plain(path: Path, start: int, end: int | None) -> Iterator[bytes]:
    with open(path, "rb") as stream:
        stream.seek(start)
        left = None if end is None else end - start
        while left is None or left > 0:
            block = stream.read(BLOCK if left is None else min(BLOCK, left))
            if not block:
                return
            if left is not None:
                left -= len(block)
            yield block
