"""Held-out rows of one model, with what their prompts begin with run once.

    prompts = Prompts(model, rows, device)
    prompt = prompts.read(row)                      # the states behind a row's prompt
    scored = prompts.score(prompt)                  # its recorded answer, teacher-forced
    logits, states = prompts.go_on(prompt, tokens)  # another answer

Of rows that share a system prompt and a task, only what differs is run again: attention layers
keep keys and values of the common prefix, DeltaNet layers their convolution's inputs and recurrent
state.
A prompt's states then serve both its recorded answer and its generated one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from adaptermill.evaluation.teacher_forced import Scored
from adaptermill.models.encode import Encoded
from adaptermill.models.prefix import common_prefix, positions
from adaptermill.models.scoring import token_logps
from adaptermill.models.states import LINEAR, empty, filled, layer_kinds, take, why_unknown


@dataclass(frozen=True)
class Prompt:
    """What is behind a row's prompt.

    `states`: two tensors a layer (models/states.py). `logits`: float32 [V], which predict the
    answer's first token. `position`: int64 [1] or [3] (M-RoPE), where that token stands.
    """

    row: Encoded
    states: list[torch.Tensor]
    logits: torch.Tensor
    position: torch.Tensor

    @property
    def length(self) -> int:
        """Tokens of the prompt."""
        return self.row.prompt_length


class Prompts:
    """Reads prompts of `rows` under `model` (the base, bare or inside PEFT), on `device`.

    `ValueError` for an architecture whose layers may keep more than is known (`can_read`).
    """

    def __init__(
        self, model: torch.nn.Module, rows: Sequence[Encoded], device: torch.device | str
    ) -> None:
        self.base = bare(model)
        if (why := why_unknown(self.base.config)) is not None:
            raise ValueError(why)
        self.device = device
        self.kinds = layer_kinds(self.base.config)
        self.length = common_prefix(rows) if len(rows) > 1 else 0
        self.states: list[torch.Tensor] = []
        if self.length:
            first = rows[0]
            places = positions(self.base, first)[..., : self.length]
            ids = first.input_ids[None, : self.length]
            _, self.states = self._forward([], {"input_ids": ids}, places, 1)

    @staticmethod
    def can_read(model: torch.nn.Module) -> bool:
        """Whether all that the model's layers keep of earlier tokens is known."""
        return why_unknown(bare(model).config) is None

    def read(self, row: Encoded) -> Prompt:
        """Runs what the row's prompt has of its own."""
        end, places = row.prompt_length, positions(self.base, row)
        inputs = {
            # What belongs to tokens is cut; images stand behind the common prefix, whole.
            name: value[:, self.length : end] if name.endswith("token_type_ids") else value
            for name, value in row.model_inputs.items()
        }
        inputs["input_ids"] = row.input_ids[None, self.length : end]
        logits, states = self._forward(self.states, inputs, places[..., self.length : end], 1)
        # An answer is text: each token stands one further in every dimension.
        return Prompt(row, states, logits[-1], places[..., end - 1].reshape(-1) + 1)

    def score(self, prompt: Prompt) -> Scored:
        """The row's recorded answer under the model."""
        targets = prompt.row.targets
        logits = prompt.logits[None]
        if len(targets) > 1:
            more, _ = self.go_on(prompt, targets[:-1])
            logits = torch.cat([logits, more])
        logps = token_logps(logits, targets.to(self.device))
        return Scored(logps.cpu(), logits.argmax(dim=-1).cpu(), targets.cpu())

    def go_on(
        self, prompt: Prompt, tokens: torch.Tensor
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The logits behind each of an answer's tokens, float32 [T, V], and the states.

        `tokens`: int64 [T], the first of which follows the prompt.
        """
        places = prompt.position[:, None] + torch.arange(len(tokens))
        inputs = {"input_ids": tokens[None]}
        return self._forward(prompt.states, inputs, _batched(places), len(tokens))

    def _forward(
        self,
        states: Sequence[torch.Tensor],
        inputs: dict[str, torch.Tensor],
        places: torch.Tensor,
        keep: int,
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        moved = {
            name: value.to(self.device) if isinstance(value, torch.Tensor) else value
            for name, value in {**inputs, "position_ids": places}.items()
        }
        return run(self.base, self.kinds, states, moved, keep)


def run(
    base: PreTrainedModel,
    kinds: Sequence[str],
    states: Sequence[torch.Tensor],
    inputs: dict[str, torch.Tensor],
    keep: int,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """One row's forward on from `states`: its last logits, float32 [keep, V], and new states."""
    # A forward of one token writes into the convolution's state.
    own = [
        state.clone() if kinds[number // 2] == LINEAR and number % 2 == 0 else state
        for number, state in enumerate(states)
    ]
    cache = filled(kinds, own) if own else empty(kinds)
    with torch.inference_mode():
        logits = base(**inputs, cache=cache, use_cache=True, logits_to_keep=keep).logits
    return logits[0, -keep:].float(), [state for layer in cache.layers for state in take(layer)]


def bare(model: torch.nn.Module) -> PreTrainedModel:
    """The base, with the layers of an adapter in it where there is one."""
    return model.get_base_model() if hasattr(model, "peft_config") else model


def _batched(places: torch.Tensor) -> torch.Tensor:
    """Position ids as a forward takes them, of those int64 [1 or 3, L]: [1, L] or [3, 1, L]."""
    return places if len(places) == 1 else places[:, None]
