"""Rows as the trainer wants them: encoded, decoded and cached by row id."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from adaptermill.models.encode import Encoded, Encoder
from adaptermill.rows.dataset import open_sources
from adaptermill.rows.images import decode

_KEPT_TOKENS = 4096
_KEPT_ROWS = 64


class Examples:
    """Encoded rows of ingested sources. Tokens are cheap and kept; pixels are made when asked."""

    def __init__(self, folders: Sequence[Path], encoder: Encoder) -> None:
        self.rows, self.images = open_sources(folders)
        self.encoder = encoder
        self.tokens = lru_cache(maxsize=_KEPT_TOKENS)(self._tokens)
        self.encoded = lru_cache(maxsize=_KEPT_ROWS)(self._encoded)
        self.content = lru_cache(maxsize=None)(self._content)

    def _content(self, row_id: str) -> str:
        """The hash of the row's messages, screenshots and target: what it is, not its name."""
        return self.rows.get(row_id).content_hash

    def _tokens(self, row_id: str) -> Encoded:
        """The row without pixels."""
        row = self.rows.get(row_id)
        sizes = [self.images.size(name) for name in row.images]
        return self.encoder.tokens(row.messages, row.target, sizes)

    def _encoded(self, row_id: str) -> Encoded:
        """The row with its screenshots."""
        row = self.rows.get(row_id)
        images = [] if self.encoder.drops_images else [self.images.bytes(n) for n in row.images]
        return self.encoder.encode(row.messages, row.target, [decode(data) for data in images])
