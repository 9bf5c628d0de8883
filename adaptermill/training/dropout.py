"""Dropout whose masks are a function, not a draw.

A mask is computed from (seed, optimizer step, module, row, token position, feature) by integer
hashing. Nothing is drawn from a generator, so the number of processes, the order of rows, a resumed
run and recomputation under checkpointing cannot change a result. For the positions of the batch's
common prefix the key holds no row: all rows of a batch share one mask there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

_GOLDEN = 0x9E3779B9


def _signed(value: int) -> int:
    """An unsigned 32-bit number as torch's int32 holds it."""
    return value - (1 << 32) if value >= 1 << 31 else value


def _mix_high(values: torch.Tensor) -> torch.Tensor:
    """Mixes int32 in place (products wrap around), so that the high bits depend on all bits.

    MurmurHash3's 32-bit finalizer without its last step, which changes the low 16 bits only.
    """
    values ^= (values >> 16).bitwise_and_(0xFFFF)
    values *= _signed(0x85EBCA6B)
    values ^= (values >> 13).bitwise_and_(0x7FFFF)
    values *= _signed(0xC2B2AE35)
    return values


def _mix(values: torch.Tensor) -> torch.Tensor:
    """The whole finalizer, on a copy."""
    values = _mix_high(values.clone())
    return values ^ ((values >> 16) & 0xFFFF)


def _word(*parts: object) -> int:
    """32 bits of the SHA-256 of the parts."""
    text = "\0".join(map(str, parts)).encode("utf-8")
    return _signed(int.from_bytes(hashlib.sha256(text).digest()[:4], "little"))


def position_keys(
    seed: int, step: int, row: str, length: int, prefix: int, device: torch.device | str
) -> torch.Tensor:
    """int32 [length]: a key per token position; the first `prefix` ones hold no row."""
    positions = torch.arange(length, dtype=torch.int32, device=device)
    shared = _mix(positions * _signed(_GOLDEN) + _word("prefix", seed, step))
    own = _mix(positions * _signed(_GOLDEN) + _word("row", seed, step, row))
    return torch.where(positions < prefix, shared, own)


class DropoutKeys:
    """The position keys of the row that the model is run on now, shared by all its modules."""

    def __init__(self) -> None:
        self.positions: torch.Tensor | None = None

    def set(self, positions: torch.Tensor | None) -> None:
        """Keys int32 [L] for the next forward; None turns dropout off."""
        self.positions = positions

    @contextmanager
    def part(self, place: slice) -> Iterator[None]:
        """Inside, the model is run on a part of the row only."""
        whole = self.positions
        with self.being(None if whole is None else whole[place]):
            yield

    @contextmanager
    def being(self, positions: torch.Tensor | None) -> Iterator[None]:
        """Inside, the keys are these; after it, what they were."""
        before, self.positions = self.positions, positions
        try:
            yield
        finally:
            self.positions = before


class KeyedDropout(nn.Module):
    """Drops features of inputs [..., L, d] with probability `p` and scales the rest by 1/(1-p)."""

    def __init__(self, p: float, name: str, keys: DropoutKeys) -> None:
        super().__init__()
        self.p = p
        self.keys = keys
        self._salt = _word("module", name)
        # As int32 sees it: a share p of all values lies below.
        self._threshold = round(p * (1 << 32)) - (1 << 31)

    def dropped(self, positions: torch.Tensor, features: int) -> torch.Tensor:
        """bool [L, d]: which features are dropped at each position."""
        numbers = torch.arange(features, dtype=torch.int32, device=positions.device)
        columns = _mix(numbers * _signed(_GOLDEN) + self._salt)
        return _mix_high(positions[:, None] ^ columns[None, :]) < self._threshold

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.keys.positions is None:
            return inputs
        dropped = self.dropped(self.keys.positions, inputs.shape[-1])
        # In this form the backward pass keeps a byte per feature, not a float.
        return inputs.masked_fill(dropped, 0.0) * (1.0 / (1.0 - self.p))
