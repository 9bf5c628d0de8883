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
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer


def recompute_layers(base: PreTrainedModel) -> int:
    """From now on the language model's layers keep only their inputs; returns how many they are.

    Not transformers' own switch: it works in training mode alone, where other dropouts than the
    adapter's would come alive.
    """
    layers = [
        module
        for module in base.get_decoder().modules()
        if isinstance(module, GradientCheckpointingLayer)
    ]
    for layer in layers:
        layer.forward = partial(_run, layer.forward)
    return len(layers)


def _run(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)
