"""The adapter as one vector: A frozen and shared by all nodes, the B matrices trained.

With one A everywhere, the mean of B is the mean of the weight change B A, exactly (Sun et al.,
"Improving LoRA in Privacy-preserving Federated Learning", 2024).
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import torch
from peft import PeftModel
from torch import nn

from adaptermill.models.base import BaseRef
from adaptermill.training import lora
from adaptermill.training.checkpoint import Refusal
from adaptermill.training.consensus.recipe import ConsensusRecipe
from adaptermill.training.dropout import DropoutKeys

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


def adapted_modules(model: nn.Module, targets: str, layers_last: int | None) -> list[str]:
    """Full names of the projections that get an adapter: those of the last layers, or of all."""
    names = lora.language_modules(model, targets)
    if layers_last is None:
        return names
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    if layers_last > count:
        raise Refusal(f"layers_last is {layers_last}, and the base has {count} layers")
    layers = {name: _LAYER.search(name) for name in names}
    chosen = [
        name for name, found in layers.items() if found and int(found[1]) >= count - layers_last
    ]
    if not chosen:
        raise Refusal(
            f"the last {layers_last} layers of the base have none of the projections of "
            f"lora_targets: {targets}; raise layers_last"
        )
    return chosen


class Basis:
    """The base with an adapter on it, of which the B matrices are read and written as a vector.

    `start` is None or the folder of an adapter whose A and B are begun with.
    """

    def __init__(
        self, model: nn.Module, recipe: ConsensusRecipe, ref: BaseRef, start: Path | None
    ) -> None:
        self.keys = DropoutKeys()
        names = adapted_modules(model, recipe.lora_targets, recipe.layers_last)
        self.model: PeftModel = lora.attach(model, recipe.adapter, ref, self.keys, names)
        if start is not None:
            lora.load_start(self.model, start, recipe.adapter)
        self.model.train(False)  # dropout is ours; nothing else may behave differently in training
        layers = [layer for _, layer in lora.lora_layers(self.model)]
        for layer in layers:
            layer.lora_A["default"].weight.requires_grad_(False)
        self.parts: list[nn.Parameter] = [layer.lora_B["default"].weight for layer in layers]

    @property
    def hash(self) -> str:
        """SHA-256 over the names and values of all A matrices."""
        found = hashlib.sha256()
        for name, layer in lora.lora_layers(self.model):
            weight = layer.lora_A["default"].weight.detach().float().cpu().contiguous()
            found.update(name.encode("utf-8") + b"\0" + weight.numpy().tobytes())
        return found.hexdigest()

    def vector(self) -> torch.Tensor:
        """float32 [P]: a copy of the B matrices, one after the other."""
        return torch.cat([part.detach().float().flatten() for part in self.parts])

    @torch.no_grad()
    def put(self, vector: torch.Tensor) -> None:
        """Makes the adapter that of the vector [P]."""
        at = 0
        for part in self.parts:
            part.copy_(vector[at : at + part.numel()].view_as(part))
            at += part.numel()

    def clear_gradient(self) -> None:
        for part in self.parts:
            part.grad = None

    def gradient(self) -> torch.Tensor:
        """float32 [P]: the gradient that backward passes have left."""
        gradients = (p.new_zeros(p.shape) if p.grad is None else p.grad for p in self.parts)
        return torch.cat([gradient.float().flatten() for gradient in gradients])

    def relative_change(self, vector: torch.Tensor) -> float:
        """||change of W|| / ||W|| under that vector, from the base or the adapter begun with."""
        self.put(vector)
        return lora.relative_change(self.model)

    def save(self, vector: torch.Tensor, folder: Path) -> None:
        """Writes the adapter of that vector in PEFT's own format."""
        self.put(vector)
        lora.save(self.model, folder)
