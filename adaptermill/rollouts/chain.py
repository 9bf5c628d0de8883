"""A chain of agents: who speaks in which order, and who sees what.

    sequential    each agent sees the query and the messages of all agents before it
    hierarchical  all agents but the last answer apart; the last one sees all their messages

An agent's message is handed on without its thinking, stripped, and cut to `handed_on` characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adaptermill.errors import UserError
from adaptermill.judges.visible import visible
from adaptermill.rollouts.roles import RolePrompt, read_prompt

SYSTEMS = ("sequential", "hierarchical")
ROLES = ("planner", "critic", "refiner", "judger")


@dataclass(frozen=True)
class Decoding:
    """How an agent's tokens are drawn. Temperature 0 takes the likeliest; `thinking` is asked for
    by the chat template (`enable_thinking`)."""

    temperature: float = 0.8
    top_p: float = 0.95
    max_new_tokens: int = 256
    thinking: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise UserError(f"temperature is {self.temperature}; it is 0 or more")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p is {self.top_p}; it lies above 0 and at most at 1")
        if self.max_new_tokens < 1:
            raise UserError(f"max_new_tokens is {self.max_new_tokens}; it is 1 or more")


@dataclass(frozen=True)
class Agent:
    """One seat. `adapter`: a folder (local engine) or a model's name (endpoint), None: the base."""

    role: str
    prompt: RolePrompt
    decoding: Decoding
    adapter: str | None = None


@dataclass(frozen=True)
class Chain:
    """The agents in the order in which they speak."""

    system: str
    agents: tuple[Agent, ...]
    handed_on: int | None = None

    def seen_by(self, agent: int) -> range:
        """Numbers of the agents whose messages this one sees."""
        return range(agent) if _sees_others(self.system, agent, len(self.agents)) else range(0)

    def prompt(self, agent: int, query: str, outputs: Sequence[str]) -> list[dict[str, str]]:
        """The chat messages that an agent is prompted with; `outputs` are those before it."""
        said = [
            f"{self.agents[other].role.capitalize()}: {self._handed(outputs[other])}"
            for other in self.seen_by(agent)
        ]
        own = self.agents[agent]
        return own.prompt.messages({"query": query, "messages": "\n".join(said), "role": own.role})

    def _handed(self, output: str) -> str:
        return visible(output).strip()[: self.handed_on]

    def described(self) -> dict[str, Any]:
        """All that decides what is said, beside the engine's model, as JSON."""
        return {
            "system": self.system,
            "handed_on": self.handed_on,
            "agents": [
                {
                    "role": agent.role,
                    "prompt": {"system": agent.prompt.system, "user": agent.prompt.user},
                    **vars(agent.decoding),
                }
                for agent in self.agents
            ],
        }


def build_chain(
    system: str,
    roles: Sequence[str],
    prompts: Mapping[str, Path],
    decodings: Sequence[Decoding],
    adapters: Mapping[str, str],
    handed_on: int | None,
) -> Chain:
    """The chain of `roles`; `prompts` and `adapters` by role (`all`: every role not named).

    `UserError` for a system or role that is not known, or a prompt that lacks its places.
    """
    if system not in SYSTEMS:
        raise UserError(f"system is {system!r}, not one of {', '.join(SYSTEMS)}")
    if not roles or len(set(roles)) != len(roles):
        raise UserError("roles: name at least one agent, and each role once")
    if handed_on is not None and handed_on < 1:
        raise UserError("the limit on handed-on text is 1 character or more")
    for what, named in (("prompt", set(prompts)), ("adapter", set(adapters) - {"all"})):
        if unknown := sorted(named - set(roles)):
            raise UserError(f"{what} of {unknown[0]!r}: the roles are {', '.join(roles)}")
    agents = tuple(
        Agent(
            role,
            read_prompt(prompts.get(role), role, _sees_others(system, number, len(roles))),
            decodings[number],
            adapters.get(role, adapters.get("all")),
        )
        for number, role in enumerate(roles)
    )
    return Chain(system, agents, handed_on)


def _sees_others(system: str, agent: int, count: int) -> bool:
    return agent > 0 and (system == "sequential" or agent == count - 1)
