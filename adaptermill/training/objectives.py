"""The losses of one row, over its target tokens."""

from __future__ import annotations

import torch

# log p_ref - log p is clamped to this range before it is exponentiated.
CLAMP = (-20.0, 8.0)


def cross_entropy(logps: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Mean of -log p over the target tokens [T], or over those where `mask` (bool [T]) is true."""
    return -logps.mean() if mask is None else -_masked_mean(logps, mask)


def anchor_penalty(
    logps: torch.Tensor, reference: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The anchor penalty of a row, and how many of its masked tokens were clamped.

    With d = log p_ref - log p clamped to [-20, 8], the mean of exp(d) - d - 1 over the masked
    tokens: the "k3" form of Schulman, "Approximating KL Divergence" (2020). On replayed tokens it
    is a penalty, not an unbiased estimate of a divergence. `logps` and `reference` are float [T].
    """
    difference = reference - logps
    clamped = difference.clamp(*CLAMP)
    # expm1: where the two differ in the last bits only, exp(d) - 1 would be nothing but rounding.
    penalty = _masked_mean(torch.expm1(clamped) - clamped, mask)
    return penalty, ((difference != clamped) & mask.bool()).sum()


def _masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weights = mask.to(values.dtype)
    return (values * weights).sum() / weights.sum()
