"""The local engine: a transformers model here, many rollouts at once, an adapter per seat.

    engine = LocalEngine(ref, unit=32)
    engine.prepare(chain.agents)
    engine.speak(agent, requests, keep)

What prompts begin with in common is run once (prefill.py), a prompt that k rollouts share as well.
A row's tokens are those that it would get alone, apart from rounding: sums over a batch may be
taken in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from adaptermill.errors import UserError
from adaptermill.evaluation.generated import declared_ends
from adaptermill.judges.local_model import device_and_dtype
from adaptermill.models.base import BaseRef, load_model, load_processor
from adaptermill.models.encode import Encoder, TemplatePrefixError
from adaptermill.models.states import why_unknown
from adaptermill.rollouts import adapters
from adaptermill.rollouts.chain import Agent
from adaptermill.rollouts.engine import Request, Said
from adaptermill.rollouts.prefill import Prefill, Rows
from adaptermill.rollouts.sampling import next_tokens
from adaptermill.rollouts.seeds import uniforms

_THINK = "<think>"


class LocalEngine:
    """`unit`: so many rollouts are decoded side by side."""

    together = True

    def __init__(self, ref: BaseRef, unit: int = 32) -> None:
        self.ref = ref
        self.unit = unit
        self.notes: list[str] = []
        self.prompt_tokens = self.run_tokens = 0
        self.device, self.dtype = device_and_dtype()
        self._keys: dict[str, str] = {}

    def identity(self) -> dict[str, Any]:
        return {
            "engine": "local",
            "base": self.ref.identity,
            "device": self.device,
            "unit": self.unit,
            "versions": {name: version(name) for name in ("torch", "transformers")},
        }

    def prepare(self, agents: Sequence[Agent]) -> None:
        folders = sorted(
            {str(Path(agent.adapter)) for agent in agents if agent.adapter is not None}
        )
        self._keys = {name: adapters.check(Path(name), self.ref) for name in folders}
        model = load_model(self.ref, self.device, self.dtype)
        unknown = why_unknown(model.config)
        if unknown is not None:
            raise UserError(
                f"the base {self.ref.model} cannot be rolled out here: {unknown}. Serve it behind "
                "an OpenAI-compatible endpoint instead"
            )
        paths = [Path(name) for name in folders]
        self.model, self._names = adapters.on_seats(model, paths, self.ref)
        self._inner = self.model.get_base_model() if self._names else self.model
        processor = load_processor(self.ref)
        self.encoders = {
            thinking: Encoder(processor, thinking)
            for thinking in {agent.decoding.thinking for agent in agents}
        }
        encoder = next(iter(self.encoders.values()))
        self._tokenizer = encoder.tokenizer
        self._ends = torch.tensor(sorted({encoder.end_of_turn_id, *declared_ends(model)}))

    def collected_with(self, agent: Agent) -> str:
        return "base" if agent.adapter is None else self._keys[str(Path(agent.adapter))]

    def run_to_the_limit(self) -> None:
        """No token ends a message from now on: for measuring how fast tokens come."""
        self._ends = self._ends[:0]

    def speak(
        self, agent: Agent, requests: Sequence[Request], keep: Callable[[int, Said], None]
    ) -> None:
        encoder = self.encoders[agent.decoding.thinking]
        prompts: list[tuple[int, ...]] = []
        asked: list[int] = []
        for number, request in enumerate(requests):
            try:
                ids = encoder.encode(request.messages, None, []).input_ids
            except TemplatePrefixError as error:
                keep(number, Said("", fault=str(error)))
                continue
            asked.append(number)
            prompts.append(tuple(ids.tolist()))
        if not asked:
            return
        given = self._given(encoder, requests[asked[0]])
        with torch.inference_mode(), self._seated(agent):
            made = self._generate(agent, prompts, [requests[number].seed for number in asked])
        for number, tokens in zip(asked, made, strict=True):
            ended = bool(tokens) and tokens[-1] in self._ends.tolist()
            text = self._tokenizer.decode(
                tokens[:-1] if ended else tokens,
                skip_special_tokens=True,
                clean_up_tokenization_spaces=False,
            )
            keep(number, Said(given + text, given, len(tokens)))

    def _seated(self, agent: Agent) -> Any:
        """Switches to the agent's adapter, or to the bare base."""
        if not self._names:
            return nullcontext()
        if agent.adapter is None:
            return self.model.disable_adapter()
        self.model.set_adapter(self._names[str(Path(agent.adapter))])
        return nullcontext()

    @staticmethod
    def _given(encoder: Encoder, request: Request) -> str:
        """What the template begins a thinking agent's answer with: `<think>`, or nothing."""
        rendered = encoder.render(request.messages)
        return rendered[rendered.rindex(_THINK) :] if rendered.rstrip().endswith(_THINK) else ""

    def _generate(
        self, agent: Agent, prompts: list[tuple[int, ...]], seeds: list[int]
    ) -> list[list[int]]:
        """Tokens of each row, the end token included where one came within the budget."""
        decoding = agent.decoding
        prefill = Prefill(self._inner, self.device)
        behind = prefill.run(prompts)
        self.prompt_tokens += sum(map(len, prompts))
        self.run_tokens += prefill.tokens
        draws = torch.stack(
            [torch.from_numpy(uniforms(seed, decoding.max_new_tokens)) for seed in seeds]
        ).to(self.device)
        ends = self._ends.to(self.device)
        steps = decoding.max_new_tokens
        rows = Rows(self._inner, [behind[p][0] for p in prompts], [len(p) for p in prompts], steps)
        logits = torch.stack([behind[p][1] for p in prompts])
        del behind
        alive = torch.arange(len(prompts), device=self.device)
        made: list[list[int]] = [[] for _ in prompts]
        for place in range(decoding.max_new_tokens):
            tokens = next_tokens(logits, decoding.temperature, decoding.top_p, draws[alive, place])
            for row, token in zip(alive.tolist(), tokens.tolist(), strict=True):
                made[row].append(token)
            going = (~torch.isin(tokens, ends)).nonzero().squeeze(1)
            if len(going) == 0 or place + 1 == decoding.max_new_tokens:
                break
            if len(going) < len(alive):
                rows.keep(going)
                alive, tokens = alive[going], tokens[going]
            logits = rows.step(tokens)
        return made
