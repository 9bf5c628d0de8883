"""Teacher-forced scoring: how likely the recorded answer is, token by token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from adaptermill.models.encode import Encoded
from adaptermill.models.scoring import target_logits, token_logps


@dataclass(frozen=True)
class Scored:
    """A row's recorded answer under a model, on the CPU.

    `logps`: float32 [T], log p of each target token given all before it. `greedy`: int64 [T], the
    most likely token in its place. `targets`: int64 [T].
    """

    logps: torch.Tensor
    greedy: torch.Tensor
    targets: torch.Tensor

    @property
    def matches(self) -> torch.Tensor:
        """bool [T]: where the recorded token is the most likely one."""
        return self.greedy == self.targets


def score(model: torch.nn.Module, encoded: Encoded, device: torch.device | str) -> Scored:
    """Scores one row by itself, so that its figures depend on no other row."""
    with torch.inference_mode():
        logits = target_logits(model, encoded, device)
        logps = token_logps(logits, encoded.targets.to(device))
        greedy = logits.argmax(dim=-1)
    return Scored(logps.cpu(), greedy.cpu(), encoded.targets.cpu())


def nll(scored: Scored) -> float:
    """The mean of -log p over the recorded answer's tokens."""
    return -scored.logps.double().mean().item()


def figures(scored: Scored, mask: torch.Tensor) -> dict[str, Any]:
    """The columns that scoring fills. `mask` is bool [T], the action's tokens."""
    logps = scored.logps.double()
    return {
        "nll": nll(scored),
        "nll_sum": -logps.sum().item(),
        "target_tokens": len(logps),
        "nll_action": -logps[mask].mean().item(),
        "action_tokens": int(mask.sum()),
        "greedy_match": bool(scored.matches[mask].all()),
        "logps": scored.logps.tolist(),
        "action_mask": mask.tolist(),
    }
