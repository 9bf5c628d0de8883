"""A judging model that runs here: greedy answers of a transformers model, one prompt at a time.

One at a time, so that an answer depends on no other row; for many rows a server behind an endpoint
is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from transformers import GenerationConfig

from adaptermill.judges.judge import Example
from adaptermill.judges.llm import Answer
from adaptermill.models.base import BaseRef, load_model, load_processor
from adaptermill.models.encode import Encoder, TemplatePrefixError
from adaptermill.models.scoring import forward_inputs


def device_and_dtype() -> tuple[str, torch.dtype]:
    """A GPU in bfloat16 where there is one, else the CPU in float32."""
    return ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)


class LocalModel:
    """`max_tokens` is the longest answer. The model is loaded when the first prompt comes."""

    def __init__(self, ref: BaseRef, max_tokens: int) -> None:
        self.ref = ref
        self.max_tokens = max_tokens

    def answer_all(
        self,
        examples: Iterable[Example],
        prompt: Callable[[Example], list[dict[str, Any]]],
        keep: Callable[[Example, Answer], None],
    ) -> None:
        model = None
        for example in examples:
            if model is None:
                device, dtype = device_and_dtype()
                model = load_model(self.ref, device, dtype)
                encoder = Encoder(load_processor(self.ref))
            keep(example, self._answer(model, encoder, prompt(example)))

    def _answer(self, model: Any, encoder: Encoder, messages: list[dict[str, Any]]) -> Answer:
        try:
            encoded = encoder.encode(messages, None, [])
        except TemplatePrefixError as error:
            return Answer(str(error), "refused")
        declared = model.generation_config.eos_token_id or []
        ends = declared if isinstance(declared, list) else [declared]
        settings = GenerationConfig(
            max_new_tokens=self.max_tokens,
            do_sample=False,
            eos_token_id=sorted({encoder.end_of_turn_id, *ends}),
            pad_token_id=encoder.end_of_turn_id,
        )
        # Passed settings are completed from the model's own, which may hold penalties.
        own, model.generation_config = model.generation_config, settings
        inputs = forward_inputs(encoded, model.device)
        with torch.inference_mode():
            made = model.generate(
                **inputs,
                attention_mask=torch.ones_like(inputs["input_ids"]),
                generation_config=settings,
            )
        model.generation_config = own
        said = made[0, len(encoded.input_ids) :]
        return Answer(encoder.tokenizer.decode(said, skip_special_tokens=True))
