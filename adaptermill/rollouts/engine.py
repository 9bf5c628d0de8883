"""What engines have in common: requests of one agent in, what was said out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from adaptermill.rollouts.chain import Agent


@dataclass(frozen=True)
class Request:
    """One message to be said: the chat messages that prompt it, and the seed of its draws."""

    messages: Sequence[dict[str, Any]]
    seed: int


@dataclass(frozen=True)
class Said:
    """One message. `text` begins with `prefill`, which the chat template gave.

    `tokens`: how many were generated, the end token included (None where the server does not say).
    `fault`: why there is no message, for instance what a server refused it with.
    """

    text: str
    prefill: str = ""
    tokens: int | None = None
    fault: str | None = None


class Engine(Protocol):
    """`unit`: rollouts that are under way at once. `together`: their rows are computed side
    by side, so that they are kept and resumed together; else each message is kept as it comes.

    `identity`: whatever beside the chain decides what is said, as JSON. `notes`: what a reader of
    the rollouts should know.
    """

    unit: int
    together: bool
    notes: list[str]

    def identity(self) -> dict[str, Any]: ...

    def prepare(self, agents: Sequence[Agent]) -> None:
        """Makes sure that all agents can speak; `UserError` before anything is generated."""

    def collected_with(self, agent: Agent) -> str:
        """What speaks as this agent: `base`, or the adapter's key."""

    def speak(
        self,
        agent: Agent,
        requests: Sequence[Request],
        keep: Callable[[int, Said], None],
    ) -> None:
        """Calls `keep(number of the request, what was said)` for each, in any order."""
