"""Generated answers: what the model says by itself, greedily.

The recorded answer serves as a draft that one teacher-forced forward has checked already (the idea
of speculative decoding, Leviathan et al. 2023, with greedy acceptance): up to the first token that
is not the most likely one, the greedy answer *is* the recorded one. Only what comes after is
generated, which for an adapter that has learnt its family is little or nothing.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from transformers import GenerationConfig, PreTrainedModel

from adaptermill.evaluation.decoding import Start
from adaptermill.evaluation.prompts import Prompt, Prompts
from adaptermill.evaluation.teacher_forced import Scored
from adaptermill.models.encode import Encoded, Encoder
from adaptermill.models.scoring import forward_inputs


class Answerer:
    """Greedy answers of one model: `answer` makes one by itself, reading.py many side by side.

    `model` is the base, bare or inside PEFT. Generation ends at the template's end-of-turn, at any
    other end token that the base declares, or after `max_new_tokens` tokens.
    """

    def __init__(self, model: PreTrainedModel, encoder: Encoder, max_new_tokens: int) -> None:
        self.model = model
        self.encoder = encoder
        self.max_new_tokens = max_new_tokens
        self.ends = {encoder.end_of_turn_id, *declared_ends(model)}

    def answer(self, encoded: Encoded, scored: Scored, device: torch.device | str) -> str:
        """The greedy answer to the row's prompt, as text without its end token."""
        return self.text(self.tokens(encoded, scored, device))

    def text(self, tokens: list[int]) -> str:
        """The text of an answer's tokens, up to its end token."""
        return self.encoder.tokenizer.decode(
            self._before_end(tokens),
            skip_special_tokens=False,
            clean_up_tokenization_spaces=False,
        )

    def tokens(self, encoded: Encoded, scored: Scored, device: torch.device | str) -> list[int]:
        """Token ids of the greedy answer, without its end token."""
        known, whole = self.draft(scored)
        return self._before_end(known if whole else known + self._continue(encoded, known, device))

    def draft(self, scored: Scored) -> tuple[list[int], bool]:
        """How the greedy answer begins by the recorded one, and whether that is all of it."""
        matches = scored.matches.tolist()
        agreed = matches.index(False) if False in matches else len(matches)
        known = scored.targets[:agreed].tolist() + scored.greedy[agreed : agreed + 1].tolist()
        known = known[: self.max_new_tokens]
        ended = any(token in self.ends for token in known)
        return known, ended or len(known) == self.max_new_tokens

    def start(self, prompts: Prompts, prompt: Prompt, known: list[int]) -> Start:
        """Where decoding goes on behind the tokens that are known, with the next one made."""
        logits, states = prompts.go_on(prompt, torch.tensor(known))
        token = int(logits[-1].argmax())
        left = 0 if token in self.ends else self.max_new_tokens - len(known) - 1
        place, length = prompt.position + len(known), prompt.length + len(known)
        return Start(states, token, place, length, left, [token])

    def _continue(
        self, encoded: Encoded, known: list[int], device: torch.device | str
    ) -> list[int]:
        start = _prompt_with(encoded, known)
        inputs = forward_inputs(start, device)
        settings = GenerationConfig(
            do_sample=False,
            max_new_tokens=self.max_new_tokens - len(known),
            eos_token_id=sorted(self.ends),
            pad_token_id=self.encoder.end_of_turn_id,
        )
        # Passed settings are completed from the model's own, which may hold penalties.
        inner = self.model.get_base_model() if hasattr(self.model, "peft_config") else self.model
        own, inner.generation_config = inner.generation_config, settings
        try:
            with torch.inference_mode():
                made = self.model.generate(
                    **inputs,
                    attention_mask=torch.ones_like(inputs["input_ids"]),
                    generation_config=settings,
                )
        finally:
            inner.generation_config = own
        return made[0, len(start.input_ids) :].tolist()

    def _before_end(self, tokens: list[int]) -> list[int]:
        for place, token in enumerate(tokens):
            if token in self.ends:
                return tokens[:place]
        return tokens


def declared_ends(model: PreTrainedModel) -> set[int]:
    declared = model.generation_config.eos_token_id
    if declared is None:
        return set()
    return set(declared) if isinstance(declared, (list, tuple)) else {int(declared)}


def _prompt_with(encoded: Encoded, known: list[int]) -> Encoded:
    """The row's prompt followed by the answer's tokens that are known."""
    length = encoded.prompt_length + len(known)
    inputs = dict(encoded.model_inputs)
    for name in ("mm_token_type_ids", "token_type_ids"):
        if name in inputs:
            text = torch.zeros((1, len(known)), dtype=torch.int64)
            inputs[name] = torch.cat([inputs[name][:, : encoded.prompt_length], text], dim=1)
    ids = torch.cat(
        [encoded.input_ids[: encoded.prompt_length], torch.tensor(known, dtype=torch.int64)]
    )
    assert len(ids) == length
    return replace(encoded, input_ids=ids, model_inputs=inputs)
