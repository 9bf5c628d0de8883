"""What rows have in common at their beginning, and where a row's tokens stand."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from adaptermill.models.encode import Encoded


def common_prefix(rows: Sequence[Encoded]) -> int:
    """How many first tokens all rows share.

    It ends before the first image token (equal ids may be other pixels) and leaves every prompt at
    least one token of its own.
    """
    limit = min(row.prompt_length - 1 for row in rows)
    limit = min([limit, *(row.first_image for row in rows if row.first_image is not None)])
    first = rows[0].input_ids
    for row in rows[1:]:
        differs = (first[:limit] != row.input_ids[:limit]).nonzero()
        if len(differs):
            limit = int(differs[0])
    return limit


def positions(base: PreTrainedModel, encoded: Encoded) -> torch.Tensor:
    """Position ids of a whole row: int64 [1, L], or [3, 1, L] (time, height, width) for M-RoPE."""
    ids = encoded.input_ids[None]
    plain = torch.arange(ids.shape[1])[None]
    rope_index = getattr(base.base_model, "get_rope_index", None)
    if rope_index is None:
        return plain
    images = encoded.model_inputs
    if "image_grid_thw" not in images:
        return plain.expand(3, 1, -1)
    made, _ = rope_index(
        ids,
        mm_token_type_ids=images["mm_token_type_ids"],
        image_grid_thw=images["image_grid_thw"],
    )
    return made
