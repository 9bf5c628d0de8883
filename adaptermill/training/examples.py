"""Rows as the trainer wants them: encoded, decoded, some of them ahead of time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from threading import Lock

import torch

from adaptermill.models.encode import Encoded, Encoder
from adaptermill.rows.dataset import open_sources
from adaptermill.rows.images import decode

_KEPT_TOKENS = 4096
# Of pixels: a screenshot of 1280 x 800 makes 25 MB of patches.
KEPT_BYTES = 256 << 20


class Examples:
    """Encoded rows of ingested sources. Tokens are cheap and kept; pixels within `kept_bytes`."""

    def __init__(
        self, folders: Sequence[Path], encoder: Encoder, kept_bytes: int = KEPT_BYTES
    ) -> None:
        self.rows, self.images = open_sources(folders)
        self.encoder = encoder
        self.tokens = lru_cache(maxsize=_KEPT_TOKENS)(self._tokens)
        self.content = lru_cache(maxsize=None)(self._content)
        self.kept_bytes = kept_bytes
        self._kept: OrderedDict[str, tuple[Encoded, int]] = OrderedDict()
        self._coming: dict[str, Future[Encoded]] = {}
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="encoding")
        # Neither open Parquet files nor tokenizers may be used by two threads at once.
        self._lock = Lock()

    def _content(self, row_id: str) -> str:
        """The hash of the row's messages, screenshots and target: what it is, not its name."""
        with self._lock:
            return self.rows.get(row_id).content_hash

    def screenshots(self, row_id: str) -> list[str]:
        """SHA-256 of the screenshots that `encoded` has pixels of, in order."""
        with self._lock:
            return [] if self.encoder.drops_images else list(self.rows.get(row_id).images)

    def _tokens(self, row_id: str) -> Encoded:
        """The row without pixels."""
        with self._lock:
            row = self.rows.get(row_id)
            sizes = [self.images.size(name) for name in row.images]
            return self.encoder.tokens(row.messages, row.target, sizes)

    def expect(self, row_ids: Iterable[str]) -> None:
        """Encodes rows in the background that will be asked for next."""
        for row_id in row_ids:
            if row_id not in self._kept and row_id not in self._coming:
                self._coming[row_id] = self._worker.submit(self._encoded, row_id)

    def encoded(self, row_id: str) -> Encoded:
        """The row with its screenshots."""
        if row_id in self._kept:
            self._kept.move_to_end(row_id)
            return self._kept[row_id][0]
        coming = self._coming.pop(row_id, None)
        made = self._encoded(row_id) if coming is None else coming.result()
        self._kept[row_id] = (made, _size(made))
        held = sum(size for _, size in self._kept.values())
        while held > self.kept_bytes and len(self._kept) > 1:
            held -= self._kept.popitem(last=False)[1][1]
        return made

    def _encoded(self, row_id: str) -> Encoded:
        with self._lock:
            row = self.rows.get(row_id)
            images = [] if self.encoder.drops_images else [self.images.bytes(n) for n in row.images]
        decoded = [decode(data) for data in images]
        with self._lock:
            return self.encoder.encode(row.messages, row.target, decoded)


def _size(encoded: Encoded) -> int:
    """Bytes of the row's tensors."""
    tensors = [encoded.input_ids, encoded.action_mask, *encoded.model_inputs.values()]
    return sum(tensor.nbytes for tensor in tensors if isinstance(tensor, torch.Tensor))
