"""Log-probabilities of a row's target tokens."""

from __future__ import annotations

from typing import Any

import torch

from adaptermill.models.encode import Encoded


def forward_inputs(encoded: Encoded, device: torch.device | str) -> dict[str, Any]:
    """What the model's forward takes for one row, on the device."""
    inputs = {
        # What a vision tower has made of pixels already lies on the device.
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in encoded.model_inputs.items()
    }
    return {"input_ids": encoded.input_ids[None].to(device), **inputs}


def target_logits(
    model: torch.nn.Module, encoded: Encoded, device: torch.device | str
) -> torch.Tensor:
    """float32 [T, V]: the logits that predict the T target tokens (end-of-turn last).

    Only these positions go through the output layer: a large vocabulary times a long prompt would
    not fit into memory.
    """
    kept = len(encoded.targets) + 1
    inputs = forward_inputs(encoded, device)
    logits = model(**inputs, logits_to_keep=kept, use_cache=False).logits
    return logits[0, -kept:-1].float()


def token_logps(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """float32 [T]: log p of each target token, from logits float32 [T, V] and ids int64 [T]."""
    return torch.log_softmax(logits, dim=-1).gather(1, targets[:, None]).squeeze(1)
