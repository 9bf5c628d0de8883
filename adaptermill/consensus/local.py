"""An x-step by Adam: a few steps on minibatch gradients, clipped, from where the node stands.

It can be stopped after any step and gone on with: what it would need is in `partial`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from adaptermill.consensus.admm import NotFinite, Solved

# (node, step over all rounds, x [P]) -> figures with `objective`, gradient of f_node at x [P]
Gradient = Callable[[int, int, torch.Tensor], tuple[Mapping[str, float], torch.Tensor]]


@dataclass
class Partial:
    """An x-step after `step` steps: where it is, Adam's state, sums of the figures so far."""

    step: int
    x: torch.Tensor
    adam: dict[str, torch.Tensor]
    sums: dict[str, float]


@dataclass
class AdamSteps:
    """`steps` Adam steps a round on f + rho / 2 ||x - pull||^2, the whole gradient clipped.

    `keep_adam` goes on with Adam's moments in the next round, else they start afresh. `after_step`
    is called between steps; `held_back` surrounds the change of state, for signals to wait.
    """

    gradient: Gradient
    steps: int
    learning_rate: float
    clip: float
    rho: float
    figures: Sequence[str] = ("objective",)
    keep_adam: bool = False
    after_step: Callable[[int, int], None] = lambda node, step: None
    held_back: Callable[[], AbstractContextManager[Any]] = nullcontext
    partial: dict[int, Partial] = field(default_factory=dict)
    kept: dict[int, dict[str, torch.Tensor]] = field(default_factory=dict)

    def solve(
        self, node: int, round_: int, start: torch.Tensor, pull: torch.Tensor | None
    ) -> Solved:
        begin = Partial(0, start, self.kept.get(node, {}), dict.fromkeys(self.figures, 0.0))
        done = self.partial.setdefault(node, begin)
        x = torch.nn.Parameter(done.x.clone())
        optimizer = torch.optim.Adam([x], lr=self.learning_rate)
        if done.adam:
            optimizer.state[x] = {name: value.clone() for name, value in done.adam.items()}
        while done.step < self.steps:
            number = round_ * self.steps + done.step
            figures, gradient = self.gradient(node, number, x.detach())
            x.grad = gradient if pull is None else gradient + self.rho * (x.detach() - pull)
            norm = float(torch.nn.utils.clip_grad_norm_([x], self.clip))
            if not math.isfinite(norm) or not math.isfinite(figures["objective"]):
                raise NotFinite(
                    f"the {'gradient' if math.isfinite(figures['objective']) else 'objective'} of "
                    f"node {node} is not finite in round {round_ + 1}, at step {done.step + 1}"
                )
            with self.held_back():
                optimizer.step()
                done = Partial(
                    done.step + 1,
                    x.detach(),
                    optimizer.state[x],
                    {name: done.sums[name] + figures[name] for name in self.figures},
                )
                self.partial[node] = done
            self.after_step(node, number + 1)
        means = {name: total / self.steps for name, total in done.sums.items()}
        return Solved(x.detach(), means)

    def end_round(self) -> None:
        """Forgets the x-steps of a finished round, but for Adam's moments where they are kept."""
        if self.keep_adam:
            self.kept = {node: done.adam for node, done in self.partial.items()}
        self.partial = {}
