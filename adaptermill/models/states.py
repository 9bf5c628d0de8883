"""What a language model's layers keep of the tokens before: caches that gradients flow through.

Attention keeps keys and values, linear attention (Gated DeltaNet) its convolution's last inputs
and a recurrent state. Each layer keeps two tensors, so the states of L layers are a list of 2 L.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import Cache, PreTrainedConfig
from transformers.cache_utils import (
    DynamicLayer,
    LinearAttentionLayer,
    get_layer_types_and_kwargs,
)

ATTENTION, LINEAR = "full_attention", "linear_attention"
# Model types whose layers keep nothing else of the tokens before, seen by the tests.
KNOWN = {
    *("qwen3_5", "qwen3_5_text", "qwen3", "qwen2", "llama", "llava", "idefics3"),
}


class AssignedStates(LinearAttentionLayer):
    """A linear-attention layer's states, assigned: copies in place would cut the gradient."""

    def update_conv_state(
        self,
        conv_states: torch.Tensor,
        state_idx: int = 0,
        conv_kernel_size: int | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Inputs [1, d, n] behind those kept; keeps the last `conv_kernel_size` of them."""
        assert conv_kernel_size is not None
        if self.has_previous_state[state_idx]:
            whole = torch.cat([self.conv_states[state_idx], conv_states], dim=-1)
        else:
            missing = max(0, conv_kernel_size - conv_states.shape[-1])
            whole = torch.nn.functional.pad(conv_states, (missing, 0))
            self.has_previous_state[state_idx] = True
        # A copy: a view would keep all of `whole` in memory.
        self.conv_states[state_idx] = whole[..., -conv_kernel_size:].contiguous()
        return whole

    def update_recurrent_state(
        self, recurrent_states: torch.Tensor, state_idx: int = 0, **kwargs: Any
    ) -> torch.Tensor:
        self.recurrent_states[state_idx] = recurrent_states
        return recurrent_states


def layer_kinds(config: PreTrainedConfig) -> list[str]:
    """What each layer of the language model is, as transformers names it."""
    return get_layer_types_and_kwargs(config.get_text_config(decoder=True))[0]


def why_unknown(config: PreTrainedConfig) -> str | None:
    """Why the states of this architecture are not known to be all there is; None if they are."""
    types = {config.model_type, config.get_text_config(decoder=True).model_type}
    if types - KNOWN:
        return f"{' and '.join(sorted(types - KNOWN))} is not among {', '.join(sorted(KNOWN))}"
    kinds = set(layer_kinds(config))
    if ATTENTION not in kinds or kinds - {ATTENTION, LINEAR}:
        return f"its layers are {', '.join(sorted(kinds))}"
    return None


def empty(kinds: Sequence[str]) -> Cache:
    """A cache that nothing has been put into."""
    return Cache(layers=[new_layer(kind) for kind in kinds])


def filled(kinds: Sequence[str], states: Sequence[torch.Tensor]) -> Cache:
    """A cache that holds `states`, two a layer; what it is used for leaves them as they are."""
    cache = empty(kinds)
    for number, layer in enumerate(cache.layers):
        fill(layer, states[2 * number], states[2 * number + 1])
    return cache


def new_layer(kind: str) -> DynamicLayer | AssignedStates:
    return AssignedStates() if kind == LINEAR else DynamicLayer()


def is_empty(layer: DynamicLayer | AssignedStates) -> bool:
    if isinstance(layer, AssignedStates):
        return not layer.has_previous_state[0]
    return not layer.is_initialized


def take(layer: DynamicLayer | AssignedStates) -> tuple[torch.Tensor, torch.Tensor]:
    """The two tensors that a layer keeps."""
    if isinstance(layer, AssignedStates):
        return layer.conv_states[0], layer.recurrent_states[0]
    return layer.keys, layer.values


def fill(layer: DynamicLayer | AssignedStates, first: torch.Tensor, second: torch.Tensor) -> None:
    """The opposite of `take`."""
    if isinstance(layer, AssignedStates):
        layer.conv_states[0], layer.recurrent_states[0] = first, second
        layer.has_previous_state[0] = True
    else:
        layer.lazy_initialization(first, second)
        layer.keys, layer.values = first, second
