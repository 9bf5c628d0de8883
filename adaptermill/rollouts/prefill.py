"""States behind prompts, what they begin with in common run once, and rows decoded side by side.

A prompt runs alone, never padded: padding would enter the states of linear attention. Behind the
prompts rows are put side by side: a linear-attention layer's states do not depend on the length,
and keys of attention are padded on the left and masked.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import pad

from adaptermill.evaluation.decoding import roomy, stacked
from adaptermill.evaluation.prompts import run
from adaptermill.models.states import LINEAR, layer_kinds, take

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
        inputs = {
            "input_ids": torch.tensor([tokens], device=self.device),
            "position_ids": torch.arange(done, done + len(tokens), device=self.device)[None],
        }
        self.tokens += len(tokens)
        logits, new = run(self.model, self.kinds, states or [], inputs, 1)
        return new, logits[-1]


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many tokens both begin with; of a sorted list's ends, so many do all."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


class Rows:
    """Rows side by side behind their prompts; `step` gives each one more token."""

    def __init__(
        self, model: torch.nn.Module, states: Sequence[States], lengths: Sequence[int], steps: int
    ) -> None:
        """`steps`: how many there are at most."""
        self.model = model
        self.kinds = layer_kinds(model.config)
        self.steps = steps
        device = states[0][0].device
        together, mask = stacked(self.kinds, states, lengths)
        self.cache = roomy(self.kinds, together, steps)
        self.mask = mask.to(device)
        self.lengths = torch.tensor(lengths, device=device)

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits [B, V] behind the tokens int64 [B]."""
        self.mask = pad(self.mask, (0, 1), value=1)
        inputs = {
            "input_ids": tokens[:, None],
            "position_ids": self.lengths[:, None],
            "attention_mask": self.mask,
        }
        with torch.inference_mode():
            made = self.model(**inputs, cache=self.cache, use_cache=True, logits_to_keep=1)
        self.lengths, self.steps = self.lengths + 1, self.steps - 1
        return made.logits[:, -1].float()

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these rows (int64) alone."""
        # Padding that no row needs any more goes too.
        start = int((self.mask[rows].argmax(dim=1)).min())
        self.mask, self.lengths = self.mask[rows, start:], self.lengths[rows]
        states = [
            state[rows] if kind == LINEAR else state[rows, :, start:]
            for kind, layer in zip(self.kinds, self.cache.layers, strict=True)
            for state in take(layer)
        ]
        self.cache = roomy(self.kinds, states, self.steps)
