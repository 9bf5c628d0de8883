"""The objectives of a node, per example, from log p of the answers' tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from adaptermill.training.objectives import anchor_penalty, cross_entropy


def dpo(
    chosen: torch.Tensor,
    rejected: torch.Tensor,
    reference_chosen: torch.Tensor,
    reference_rejected: torch.Tensor,
    beta: float,
) -> torch.Tensor:
    """-log sigmoid(beta [(s_w - s_w_ref) - (s_l - s_l_ref)]), each s a SUM of log p of tokens.

    Tensors of one shape. Rafailov et al., "Direct Preference Optimization" (2023), equation 7.
    """
    margin = (chosen - reference_chosen) - (rejected - reference_rejected)
    return -F.logsigmoid(beta * margin)


def example_loss(
    chosen: torch.Tensor,
    rejected: torch.Tensor | None,
    reference_chosen: torch.Tensor | None,
    reference_rejected: torch.Tensor | None,
    beta_dpo: float,
    beta_kl: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """An example's objective, its parts without the penalty, and the penalty.

    All are log p of target tokens, float [T]. The penalty is on the chosen answer's tokens. A
    reference is needed for pairs, and where `beta_kl` is not 0.
    """
    if rejected is None:
        own = cross_entropy(chosen)
    else:
        assert reference_chosen is not None and reference_rejected is not None
        sums = (chosen, rejected, reference_chosen, reference_rejected)
        own = dpo(*(logps.sum() for logps in sums), beta_dpo)
    if beta_kl == 0:
        return own, own, torch.zeros_like(own)
    assert reference_chosen is not None
    penalty, _ = anchor_penalty(chosen, reference_chosen, torch.ones_like(chosen))
    return own + beta_kl * penalty, own, penalty
