"""Less memory for more time: a layer's activations are computed again in the backward pass.

Losses and gradients stay what they are: nothing in a forward draws from a generator (dropout masks
are a function of the row), so the second computation equals the first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers import Cache, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from adaptermill.models.states import fill, is_empty, take
from adaptermill.training.dropout import DropoutKeys


class Recomputation:
    """A switch: while `on`, the language model's layers keep only their inputs.

    Not transformers' own: that works in training mode alone, where other dropouts than the
    adapter's would come alive, and it takes the cache away that a shared prefix lives in.
    """

    def __init__(self, base: PreTrainedModel, keys: DropoutKeys) -> None:
        self.on = False
        self.keys = keys
        layers = [
            module
            for module in base.get_decoder().modules()
            if isinstance(module, GradientCheckpointingLayer)
        ]
        for number, layer in enumerate(layers):
            layer.forward = partial(self._run, number, layer.forward)

    def _run(
        self,
        number: int,
        forward: Callable[..., Any],
        hidden: torch.Tensor,
        *args: Any,
        cache: Cache | None = None,
        **kwargs: Any,
    ) -> Any:
        if not self.on or not torch.is_grad_enabled():
            return forward(hidden, *args, cache=cache, **kwargs)
        positions = self.keys.positions  # by the backward pass other tokens may have their turn

        def run(hidden: torch.Tensor, cache: Cache | None) -> Any:
            with self.keys.being(positions):
                return forward(hidden, *args, cache=cache, **kwargs)

        if cache is None:
            return _checkpoint(run, hidden, None)
        return _with_states(cache, number, run, hidden)


def _with_states(
    cache: Cache, number: int, forward: Callable[[torch.Tensor, Cache], Any], hidden: torch.Tensor
) -> Any:
    """A layer as a function of its states: run twice, it must not find what it left the first time.

    What comes out is noted in the cache for a prefix; behind a suffix nobody asks for it.
    """
    layer = cache.layers[number]
    begins = is_empty(layer)
    before = () if begins else take(layer)

    def run(hidden: torch.Tensor, *before: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own = type(layer)()
        if before:
            fill(own, *before)
        made = forward(hidden, Cache(layers=[None] * number + [own]))
        return (made, *take(own)) if begins else (made,)

    made, *after = _checkpoint(run, hidden, *before)
    if begins:
        fill(layer, *after)
    return made


def _checkpoint(function: Callable[..., Any], *args: Any) -> Any:
    return checkpoint(function, *args, use_reentrant=False, preserve_rng_state=False)
