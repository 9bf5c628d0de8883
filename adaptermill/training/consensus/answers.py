"""Answers in tokens, and log p of their tokens, several answers in one forward."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch

from adaptermill.models.encode import Encoded, Encoder
from adaptermill.models.scoring import target_logits, token_logps
from adaptermill.rows.dataset import open_sources
from adaptermill.rows.images import decode
from adaptermill.training.consensus.examples import Answer

_KEPT = 16384


class Answers:
    """Encoded answers of ingested sources; of two sources that hold a row, the first counts."""

    def __init__(self, folders: Sequence[Path], encoder: Encoder) -> None:
        self.rows, self.images = open_sources(folders)
        self.encoder = encoder
        self.encoded = lru_cache(maxsize=_KEPT)(self._encoded)

    def _encoded(self, answer: Answer) -> Encoded:
        row = self.rows.get(answer.prompt)
        target = row.target if answer.target == answer.prompt else self.target(answer)
        sent = [] if self.encoder.drops_images else row.images
        images = [decode(self.images.bytes(name)) for name in sent]
        return self.encoder.encode(row.messages, target, images)

    def target(self, answer: Answer) -> str:
        return self.rows.get(answer.target).target

    def collected_with(self, answer: Answer) -> str | None:
        """What the rollout says it was collected with."""
        return self.rows.get(answer.prompt).record["rollout"].get("collected_with")


def is_text(encoded: Encoded) -> bool:
    """Whether the row has no image, so that it can be padded beside others."""
    return encoded.image_tokens == 0 and "pixel_values" not in encoded.model_inputs


def precise_logps(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """[T]: log p of each target token from logits [T, V]; on a CPU in float64.

    DPO's gradient is a small difference of two large ones: in float32 the softmax over a large
    vocabulary alone costs it a digit. On a GPU, where the model itself is coarser, float32 does.
    """
    precise = torch.float64 if logits.device.type == "cpu" else torch.float32
    return token_logps(logits.to(precise), targets)


def logps_one_by_one(
    model: torch.nn.Module, rows: Sequence[Encoded], device: torch.device
) -> list[torch.Tensor]:
    """float [T] for each row, each run by itself: the plain form."""
    return [
        precise_logps(target_logits(model, row, device), row.targets.to(device)) for row in rows
    ]


def logps_together(
    model: torch.nn.Module, rows: Sequence[Encoded], device: torch.device
) -> list[torch.Tensor]:
    """float [T] for each row of text, all in one forward, padded behind their ends.

    Every layer looks back only, so what stands behind a row's end changes nothing in it.
    """
    if len(rows) == 1:
        return logps_one_by_one(model, rows, device)
    longest = max(len(row.input_ids) for row in rows)
    first = min(row.prompt_length for row in rows) - 1
    ids = torch.zeros(len(rows), longest, dtype=torch.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row.input_ids)] = row.input_ids
    ids = ids.to(device)
    extra = {
        name: torch.zeros_like(ids)
        for name in ("mm_token_type_ids", "token_type_ids")
        if name in rows[0].model_inputs
    }
    # The output layer takes the positions that any row needs.
    kept = longest - first
    logits = model(input_ids=ids, logits_to_keep=kept, use_cache=False, **extra).logits
    found = []
    for place, row in enumerate(rows):
        # A token is predicted at the position before it.
        own = logits[place, row.prompt_length - 1 - first : len(row.input_ids) - 1 - first]
        found.append(precise_logps(own, row.targets.to(device)))
    return found
