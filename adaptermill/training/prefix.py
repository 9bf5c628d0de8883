"""The common prefix of a batch, run once: its rows' suffixes go on from copies of its states.

    prefix = SharedPrefix(base, ids)              # with gradients
    for row in rows:
        loss(prefix.target_logits(row)).backward()
        prefix.collect()                          # what the row's gradient says of the states
    prefix.backward()                             # and from there to the adapter

The rows see detached copies, so that each suffix's graph lives only as long as its own backward
pass; the sum of what they say goes through the prefix once. The gradient is that of whole rows.
"""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from adaptermill.models.encode import Encoded
from adaptermill.models.prefix import positions
from adaptermill.models.states import empty, filled, layer_kinds, take
from adaptermill.training.dropout import DropoutKeys


class SharedPrefix:
    """The states behind the first `length` tokens of `encoded`, which other rows share."""

    def __init__(
        self,
        base: PreTrainedModel,
        encoded: Encoded,
        length: int,
        keys: DropoutKeys,
        device: torch.device | str,
    ) -> None:
        self.base = base
        self.length = length
        self.keys = keys
        self.device = device
        self.kinds = layer_kinds(base.config)
        cache = empty(self.kinds)
        with keys.part(slice(length)):
            base(
                input_ids=encoded.input_ids[None, :length].to(device),
                position_ids=positions(base, encoded)[..., :length].to(device),
                cache=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        self.states = [state for layer in cache.layers for state in take(layer)]
        # The states before the first adapted module carry no gradient.
        self.copies = [state.detach().requires_grad_(state.requires_grad) for state in self.states]
        self.sums: list[torch.Tensor | None] = [None] * len(self.states)

    def target_logits(self, encoded: Encoded) -> torch.Tensor:
        """float32 [T, V]: the logits that predict the row's T target tokens."""
        kept = len(encoded.targets) + 1
        inputs = {
            # What belongs to tokens is cut; images stand in the suffix, whole.
            name: value[:, self.length :] if name.endswith("token_type_ids") else value
            for name, value in encoded.model_inputs.items()
        }
        inputs["input_ids"] = encoded.input_ids[None, self.length :]
        inputs["position_ids"] = positions(self.base, encoded)[..., self.length :]
        moved = {
            name: value.to(self.device) if isinstance(value, torch.Tensor) else value
            for name, value in inputs.items()
        }
        cache = filled(self.kinds, self.copies)
        with self.keys.part(slice(self.length, None)):
            logits = self.base(**moved, cache=cache, use_cache=True, logits_to_keep=kept).logits
        return logits[0, -kept:-1].float()

    def collect(self) -> None:
        """Adds up what one row's backward pass left at the copies, in float32 at least."""
        for number, copy in enumerate(self.copies):
            if copy.grad is None:
                continue
            grad = copy.grad.to(torch.promote_types(copy.dtype, torch.float32))
            held = self.sums[number]
            self.sums[number] = grad if held is None else held.add_(grad)
            copy.grad = None

    def backward(self) -> None:
        """Takes the sums through the prefix to the adapter."""
        pairs = [
            (state, total.to(state.dtype))
            for state, total in zip(self.states, self.sums, strict=True)
            if total is not None
        ]
        if pairs:
            torch.autograd.backward(*map(list, zip(*pairs, strict=True)))
