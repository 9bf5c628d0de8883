"""What the frozen vision tower makes of a screenshot: computed once, however many rows show it.

No gradient is wanted from it, so it runs without a graph. Each screenshot goes through by itself:
its features are a function of its pixels alone, whatever else a row or a batch holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

from adaptermill.models.encode import Encoded

# Model types whose forward takes a screenshot's features in place of its pixels.
KNOWN = {"qwen3_5"}


class Screenshots:
    """Features of the screenshots seen since `forget`, by name."""

    def __init__(self, base: PreTrainedModel, device: torch.device | str) -> None:
        self.base = base
        self.device = device
        self.usable = base.config.model_type in KNOWN
        self.known: dict[str, torch.Tensor] = {}

    def forget(self) -> None:
        self.known.clear()

    def seen(self, encoded: Encoded, names: Sequence[str]) -> Encoded:
        """The row with features in place of pixels; `names` are its screenshots in order."""
        inputs = dict(encoded.model_inputs)
        if not self.usable or "pixel_values" not in inputs:
            return encoded
        grids = inputs["image_grid_thw"]
        pieces = inputs.pop("pixel_values").split(grids.prod(dim=1).tolist())
        for name, pixels, grid in zip(names, pieces, grids, strict=True):
            if name not in self.known:
                self.known[name] = self._look(pixels, grid[None])
        features = tuple(self.known[name] for name in names)
        made = BaseModelOutputWithPooling(pooler_output=features)
        return replace(encoded, model_inputs={**inputs, "mm_encoder_outputs": {"image": made}})

    @torch.no_grad()
    def _look(self, pixels: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        """[tokens, hidden] of one screenshot, from its patches and its grid [1, 3]."""
        made = self.base.base_model.get_image_features(
            pixels.to(self.device), grid.to(self.device), return_dict=True
        )
        return made.pooler_output[0]
