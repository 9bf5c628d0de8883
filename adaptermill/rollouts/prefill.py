"""States behind prompts, what they begin with in common run once, and rows decoded side by side.

A prompt runs alone, never padded: padding would enter the states of linear attention. Behind the
prompts rows are put side by side: a linear-attention layer's states do not depend on the length,
and keys of attention are padded on the left and masked.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import pad

from adaptermill.training.states import (
    LINEAR,
    empty,
    fill,
    layer_kinds,
    new_layer,
    take,
)

States = list[torch.Tensor]
# A shorter common beginning costs more in calls than it saves.
_LEAST_SHARED = 16


class Prefill:
    """Runs prompts of one model; `tokens` counts those that went through it."""

    def __init__(self, model: torch.nn.Module, device: torch.device | str) -> None:
        self.model = model
        self.device = device
        self.kinds = layer_kinds(model.config)
        self.tokens = 0

    def run(self, prompts: Sequence[tuple[int, ...]]) -> dict[tuple, tuple[States, torch.Tensor]]:
        """For each distinct prompt its states [1, ...] and the logits [V] behind it."""
        found: dict[tuple, tuple[States, torch.Tensor]] = {}
        self._run(sorted(set(prompts)), 0, None, found)
        return found

    def _run(
        self,
        prompts: list[tuple[int, ...]],
        done: int,
        states: States | None,
        found: dict[tuple, tuple[States, torch.Tensor]],
    ) -> None:
        if len(prompts) == 1:
            found[prompts[0]] = self._forward(prompts[0][done:], done, states)
            return
        # A prompt may be the beginning of another; each keeps a token of its own to run.
        shared = min(_common(prompts[0], prompts[-1]), min(map(len, prompts)) - 1)
        if shared - done >= _LEAST_SHARED:
            states, _ = self._forward(prompts[0][done:shared], done, states)
            done = shared
        groups: dict[int, list[tuple[int, ...]]] = {}
        for prompt in prompts:
            groups.setdefault(prompt[shared], []).append(prompt)
        if len(groups) == 1:  # one is the beginning of all others
            groups = {0: prompts[:1], 1: prompts[1:]}
        for group in groups.values():
            self._run(group, done, states, found)

    def _forward(
        self, tokens: Sequence[int], done: int, states: States | None
    ) -> tuple[States, torch.Tensor]:
        cache = empty(self.kinds)
        for number, layer in enumerate(cache.layers if states is not None else ()):
            # One-token steps write into a linear layer's states.
            fill(layer, states[2 * number].clone(), states[2 * number + 1].clone())
        ids = torch.tensor([tokens], device=self.device)
        places = torch.arange(done, done + len(tokens), device=self.device)[None]
        self.tokens += len(tokens)
        logits = self.model(
            input_ids=ids, position_ids=places, cache=cache, use_cache=True, logits_to_keep=1
        ).logits
        return [state for layer in cache.layers for state in take(layer)], logits[0, -1]


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many tokens both begin with; of a sorted list's ends, so many do all."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


class Rows:
    """Rows side by side behind their prompts; `step` gives each one more token."""

    def __init__(
        self, model: torch.nn.Module, states: Sequence[States], lengths: Sequence[int]
    ) -> None:
        self.model = model
        self.kinds = layer_kinds(model.config)
        self.cache = empty(self.kinds)
        longest = max(lengths)
        device = states[0][0].device
        for number, kind in enumerate(self.kinds):
            pair = [
                torch.cat([_grown(row[n], kind, longest) for row in states])
                for n in (2 * number, 2 * number + 1)
            ]
            fill(self.cache.layers[number], *pair)
        self.lengths = torch.tensor(lengths, device=device)
        places = torch.arange(longest, device=device)
        self.mask = (places >= longest - self.lengths[:, None]).long()

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits [B, V] behind the tokens int64 [B]."""
        self.mask = pad(self.mask, (0, 1), value=1)
        logits = self.model(
            input_ids=tokens[:, None],
            position_ids=self.lengths[:, None],
            attention_mask=None if bool(self.mask.all()) else self.mask,
            cache=self.cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits
        self.lengths = self.lengths + 1
        return logits[:, -1]

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these rows (int64) alone."""
        # Padding that no row needs any more goes too.
        start = int((self.mask[rows].argmax(dim=1)).min())
        self.mask, self.lengths = self.mask[rows, start:], self.lengths[rows]
        for number, kind in enumerate(self.kinds):
            first, second = (state[rows] for state in take(self.cache.layers[number]))
            if kind != LINEAR:
                first, second = first[..., start:, :], second[..., start:, :]
            layer = new_layer(kind)
            fill(layer, first, second)
            self.cache.layers[number] = layer


def _grown(state: torch.Tensor, kind: str, longest: int) -> torch.Tensor:
    """Keys or values [1, H, L, D] padded on the left to the longest; other states as they are."""
    return state if kind == LINEAR else pad(state, (0, 0, longest - state.shape[-2], 0))
