"""From logits to the next tokens, by draws that belong to the rows and not to the batch.

A token is drawn by inverting the cumulative distribution at one number from the row's own stream
(seeds.py), so that a row's tokens depend on its logits and its stream alone. top_p is nucleus
sampling (Holtzman et al. 2020): the fewest likeliest tokens whose probability reaches top_p.
"""

from __future__ import annotations

import torch

# So many likeliest tokens nearly always hold the nucleus; sorting a whole vocabulary is slow.
_LIKELIEST = 128


def next_tokens(
    logits: torch.Tensor, temperature: float, top_p: float, draws: torch.Tensor
) -> torch.Tensor:
    """int64 [B] from logits [B, V] and draws float64 [B] in [0, 1).

    Temperature 0 takes the likeliest token and uses no draw.
    """
    logits = logits.float()
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = torch.softmax(logits / temperature, dim=-1)
    if top_p >= 1:
        return _inverted(probabilities, draws)
    chosen = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    count = min(_LIKELIEST, probabilities.shape[-1])
    values, tokens = probabilities.topk(count, dim=-1)
    short = values.double().sum(-1) < top_p
    if (~short).any():
        chosen[~short] = _nucleus(values[~short], tokens[~short], top_p, draws[~short])
    if short.any():
        whole, order = probabilities[short].sort(dim=-1, descending=True, stable=True)
        chosen[short] = _nucleus(whole, order, top_p, draws[short])
    return chosen


def _nucleus(
    values: torch.Tensor, tokens: torch.Tensor, top_p: float, draws: torch.Tensor
) -> torch.Tensor:
    """Draws among tokens [B, n] of falling probabilities; those beyond top_p count as 0."""
    before = values.double().cumsum(-1) - values.double()
    place = _inverted(values.double().masked_fill(before >= top_p, 0.0), draws)
    return tokens.gather(1, place[:, None]).squeeze(1)


def _inverted(weights: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    """int64 [B]: where the cumulative weights [B, n] first exceed draw times their sum."""
    cumulative = weights.double().cumsum(-1)
    # Rounding may lift the product to the sum itself, which nothing exceeds.
    below = torch.nextafter(cumulative[:, -1:], torch.zeros_like(cumulative[:, -1:]))
    sought = torch.minimum(draws[:, None].to(cumulative) * cumulative[:, -1:], below)
    return torch.searchsorted(cumulative, sought, right=True).squeeze(1)
