"""`kind: gold_likelihood`: how likely the base finds the gold answer after the rollout so far.

The rollout so far is the example's prompt and its output; the setting `ask` is the user turn that
follows, and the gold answer is the assistant turn after that. The mean of log p over the gold
answer's tokens (its end-of-turn is not one of them) is the verdict's detail; the reward is its
exponential, the geometric mean of the tokens' probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from PIL import Image

from adaptermill.judges.judge import Example, OneByOne, Verdict
from adaptermill.judges.local_model import device_and_dtype
from adaptermill.models.base import BaseRef, load_model, load_processor
from adaptermill.models.encode import Encoder, TemplatePrefixError
from adaptermill.models.scoring import target_logits, token_logps


class GoldLikelihood(OneByOne):
    """`image` gives the picture of a SHA-256; it is asked only for bases that see."""

    reads = ("gold",)

    def __init__(self, ask: str, ref: BaseRef, image: Callable[[str], Image.Image]) -> None:
        self.ask = ask
        self.ref = ref
        self.image = image
        self._loaded: tuple[Any, Encoder] | None = None

    def verdict(self, example: Example) -> Verdict:
        if example.gold is None or not example.gold.strip():
            return Verdict(None, "no_gold", "there is no gold answer")
        if self._loaded is None:
            device, dtype = device_and_dtype()
            self._loaded = load_model(self.ref, device, dtype), Encoder(load_processor(self.ref))
        model, encoder = self._loaded
        messages = [
            *map(dict, example.messages),
            {"role": "assistant", "content": example.output},
            {"role": "user", "content": self.ask},
        ]
        images = [] if encoder.drops_images else [self.image(name) for name in example.images]
        try:
            encoded = encoder.encode(messages, example.gold.strip(), images)
        except TemplatePrefixError as error:
            return Verdict(None, "refused", str(error))
        with torch.inference_mode():
            logits = target_logits(model, encoded, model.device)
            # The last target is the end of the turn.
            logps = token_logps(logits, encoded.targets.to(model.device))[:-1].double()
        mean = logps.mean().item()
        return Verdict(math.exp(mean), "scored", f"mean log p {mean:.6f} over {len(logps)} tokens")
