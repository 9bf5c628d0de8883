"""Greedy decoding of several rows side by side, each from its own states.

Rows stand at different places: keys and values are filled up on the left and masked there; states
of DeltaNet layers have one size, and see only the tokens that are fed. A row that has ended is left
out as soon as half of its batch has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from adaptermill.models.states import LINEAR, fill, new_layer, take

# Tokens of keys and values that are held for one batch, with what is filled up.
BATCH_TOKENS = 65_536


@dataclass
class Start:
    """Where a row's decoding goes on.

    `states`: behind its last token but `token`, which is fed next and stands at `position` (int64
    [1] or [3]). `length`: the tokens in the states. `left`: how many more may be generated.
    `made`: what is generated, an end token included.
    """

    states: list[torch.Tensor]
    token: int
    position: torch.Tensor
    length: int
    left: int
    made: list[int] = field(default_factory=list)


def decode(
    base: PreTrainedModel,
    kinds: Sequence[str],
    starts: Sequence[Start],
    ends: Collection[int],
    batch_tokens: int = BATCH_TOKENS,
) -> None:
    """Fills `made` of every start, until an end token or until nothing is left."""
    for batch in _batches(starts, batch_tokens):
        _decode(base, kinds, batch, ends)


def _batches(starts: Sequence[Start], most: int) -> Iterator[list[Start]]:
    """Rows of similar lengths together, so that little is filled up."""
    batch: list[Start] = []
    for start in sorted(starts, key=lambda start: start.length + start.left):
        # The longest comes last.
        if batch and (start.length + start.left) * (len(batch) + 1) > most:
            yield batch
            batch = []
        batch.append(start)
    if batch:
        yield batch


class RoomyLayer(DynamicLayer):
    """An attention layer's keys and values [B, heads, tokens, d], with room for `more` tokens.

    A step writes its own and copies none of those before.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, more: int) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.rooms = [self._with_room(part, more) for part in (keys, values)]
        self.keys, self.values = keys, values

    @staticmethod
    def _with_room(part: torch.Tensor, more: int) -> torch.Tensor:
        batch, heads, tokens, size = part.shape
        room = part.new_empty((batch, heads, tokens + more, size))
        room[:, :, :tokens] = part
        return room

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start = self.keys.shape[-2]
        end = start + key_states.shape[-2]
        for room, new in zip(self.rooms, (key_states, value_states), strict=True):
            room[:, :, start:end] = new
        self.keys, self.values = (room[:, :, :end] for room in self.rooms)
        return self.keys, self.values


def _decode(
    base: PreTrainedModel, kinds: Sequence[str], batch: list[Start], ends: Collection[int]
) -> None:
    device = batch[0].states[0].device
    running = [start for start in batch if start.left]
    if not running:
        return
    lengths = [start.length for start in running]
    states, mask = stacked(kinds, [start.states for start in running], lengths)
    cache = roomy(kinds, states, max(start.left for start in running))
    tokens = torch.tensor([start.token for start in running])
    places = torch.stack([start.position.cpu() for start in running], dim=1)
    while True:
        mask = torch.cat([mask, mask.new_ones((len(mask), 1))], dim=1)
        inputs = {
            "input_ids": tokens[:, None],
            "position_ids": places[0, :, None] if len(places) == 1 else places[..., None],
            "attention_mask": mask,
        }
        inputs = {name: value.to(device) for name, value in inputs.items()}
        with torch.inference_mode():
            logits = base(**inputs, cache=cache, use_cache=True, logits_to_keep=1).logits
        tokens, places = logits[:, -1].float().argmax(dim=-1).cpu(), places + 1
        going = []
        for number, (start, token) in enumerate(zip(running, tokens.tolist(), strict=True)):
            if start.left:
                start.made.append(token)
                start.left = 0 if token in ends else start.left - 1
            if start.left:
                going.append(number)
        if not going:
            return
        if 2 * len(going) <= len(running):
            kept = torch.tensor(going)
            states = [state[kept.to(device)] for layer in cache.layers for state in take(layer)]
            running = [running[number] for number in going]
            cache = roomy(kinds, states, max(start.left for start in running))
            tokens, places, mask = tokens[kept], places[:, kept], mask[kept]


def roomy(kinds: Sequence[str], states: Sequence[torch.Tensor], more: int) -> Cache:
    """A cache that holds `states`, with room for `more` tokens."""
    layers = []
    for number, kind in enumerate(kinds):
        own = states[2 * number : 2 * number + 2]
        if kind == LINEAR:
            layers.append(new_layer(kind))
            fill(layers[-1], *own)
        else:
            layers.append(RoomyLayer(*own, more))
    return Cache(layers=layers)


def stacked(
    kinds: Sequence[str], states: Sequence[Sequence[torch.Tensor]], lengths: Sequence[int]
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """The states of all rows, and where theirs are: int64 [B, longest], 0 where filled up."""
    longest = max(lengths)
    made = []
    for number in range(2 * len(kinds)):
        own = [row[number] for row in states]
        if kinds[number // 2] != LINEAR:
            # [1, heads, tokens, d]
            pad = torch.nn.functional.pad
            own = [pad(state, (0, 0, longest - state.shape[-2], 0)) for state in own]
        made.append(torch.cat(own))
    mask = torch.zeros((len(lengths), longest), dtype=torch.int64)
    for number, length in enumerate(lengths):
        mask[number, longest - length :] = 1
    return made, mask
