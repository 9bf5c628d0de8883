"""Greedy decoding of several rows side by side, each from its own states.

Rows stand at different places: keys and values are filled up on the left and masked there; states
of DeltaNet layers have one size, and see only the tokens that are fed. A row that has ended is left
out as soon as half of its batch has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from transformers import PreTrainedModel

from adaptermill.evaluation.prompts import run
from adaptermill.models.states import LINEAR

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


def _decode(
    base: PreTrainedModel, kinds: Sequence[str], batch: list[Start], ends: Collection[int]
) -> None:
    device = batch[0].states[0].device
    running = [start for start in batch if start.left]
    if not running:
        return
    states, mask = _stacked(kinds, running)
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
        logits, states = run(base, kinds, states, inputs, 1)
        tokens, places = logits.argmax(dim=-1).cpu(), places + 1
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
            states = [state[kept.to(device)] for state in states]
            running = [running[number] for number in going]
            tokens, places, mask = tokens[kept], places[:, kept], mask[kept]


def _stacked(
    kinds: Sequence[str], starts: Sequence[Start]
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """The states of all rows, and where theirs are: int64 [B, longest], 0 where filled up."""
    longest = max(start.length for start in starts)
    stacked = []
    for number in range(2 * len(kinds)):
        own = [start.states[number] for start in starts]
        if kinds[number // 2] != LINEAR:
            # [1, heads, tokens, d]
            pad = torch.nn.functional.pad
            own = [pad(state, (0, 0, longest - state.shape[-2], 0)) for state in own]
        stacked.append(torch.cat(own))
    mask = torch.zeros((len(starts), longest), dtype=torch.int64)
    for number, start in enumerate(starts):
        mask[number, longest - start.length :] = 1
    return stacked, mask
