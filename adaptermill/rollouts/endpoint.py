"""An OpenAI-compatible endpoint as engine: many requests under way, an adapter by model name.

The client is the judges' one (judges/endpoint.py): retries, 429, time-outs, an early end that keeps
what is paid. `seed` is sent with every request; whether the server honours it is tried once, and
noted where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adaptermill.errors import UserError
from adaptermill.judges.endpoint import Access, EndpointModel
from adaptermill.judges.llm import Answer
from adaptermill.rollouts.chain import Agent
from adaptermill.rollouts.engine import Request, Said

_PROBE = [{"role": "user", "content": "Write a short story about a small boat on a wide sea."}]
_PROBE_TOKENS = 12


class EndpointEngine:
    """`model` is the base's name at the server. `unit`: rollouts that are under way at once."""

    together = False

    def __init__(
        self,
        access: Access,
        model: str,
        in_flight: int = 8,
        timeout: float = 300.0,
        attempts: int = 6,
        unit: int = 32,
    ) -> None:
        self.model = model
        self.unit = unit
        self.notes: list[str] = []
        self._client = EndpointModel(access, {}, in_flight, timeout, attempts)

    def identity(self) -> dict[str, Any]:
        return {"engine": "endpoint", "model": self.model, "unit": self.unit}

    def prepare(self, agents: Sequence[Agent]) -> None:
        """Asks each model twice with one seed: is it there, and does it honour the seed?"""
        for name in dict.fromkeys(self._name(agent) for agent in agents):
            client = self._client
            # The trial gives up early: nothing is lost yet.
            trial = EndpointModel(client.access, {}, 1, client.timeout, min(3, client.attempts))
            try:
                heard = _try_out(trial, name)
            except UserError as error:
                reason = str(error).partition("\n")[0]
                raise UserError(
                    f"the model {name} does not answer at the endpoint, and nothing was rolled "
                    f"out: {reason}\nStart the server, or mend --base-url, the key or the name "
                    "(an adapter's is the one under which the server was told of it)"
                ) from None
            faults = [said for said in heard if said.fault is not None]
            if faults:
                raise UserError(f"the endpoint gives no completion of {name}: {faults[0].text}")
            if heard[0].text != heard[1].text:
                self.notes.append(
                    f"the endpoint does not honour `seed` ({name}): the same command gives other "
                    "rollouts"
                )

    def collected_with(self, agent: Agent) -> str:
        return "base" if agent.adapter is None else agent.adapter

    def speak(
        self, agent: Agent, requests: Sequence[Request], keep: Callable[[int, Said], None]
    ) -> None:
        decoding = agent.decoding
        body: dict[str, Any] = {
            "model": self._name(agent),
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": decoding.max_new_tokens,
        }
        if decoding.thinking:
            body["extra_body"] = {"chat_template_kwargs": {"enable_thinking": True}}
        self._client.answer_all(
            range(len(requests)),
            lambda number: list(requests[number].messages),
            lambda number, answer: keep(number, _said(answer)),
            lambda number: {**body, "seed": requests[number].seed},
        )

    def _name(self, agent: Agent) -> str:
        return self.model if agent.adapter is None else agent.adapter


def _try_out(trial: EndpointModel, name: str) -> list[Answer]:
    heard: list[Answer] = []
    body = {"model": name, "temperature": 1.0, "max_tokens": _PROBE_TOKENS, "seed": 11}
    trial.answer_all(range(2), lambda _: _PROBE, lambda _, said: heard.append(said), lambda _: body)
    return heard


def _said(answer: Answer) -> Said:
    if answer.fault is not None:
        return Said("", fault=f"{answer.fault}: {answer.text}")
    # Half a surrogate pair could not be written.
    return Said(answer.text.encode("utf-8", "replace").decode("utf-8"))
