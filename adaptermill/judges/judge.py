"""What every judge has in common: what it is shown and what it says.

    judge.judge(examples, keep)          # calls keep(example, verdict) for each, in any order

An `Example` is anything with a prompt and an output: a replay row, an agent's message, a whole
rollout. Where it comes from does not matter to a judge; readers of rows and of trajectories make
examples of what they hold.

This module is in every judge's fingerprint: nothing belongs here that decides no verdict.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol


@dataclass(frozen=True)
class Example:
    """What is judged: an output and the prompt it answers.

    `content_hash` covers `messages` (with their images) and `output`. `messages` are chat messages
    in OpenAI's form. `answer_type` is one of math, choice, exact, code_output, safety. `reward`
    and `success` are what was recorded with the data. `screen` is (width, height) in pixels of the
    last screenshot, `actions` the names of actions that its source knows, `images` the SHA-256 of
    the images in the messages, in their order. `content` is the hash of what is judged, where
    that is not the row (a message's whole rollout); examples of one content are judged once.
    """

    row_id: str
    content_hash: str
    messages: Sequence[Mapping[str, Any]]
    output: str
    gold: str | None = None
    answer_type: str | None = None
    reward: float | None = None
    success: bool | None = None
    screen: tuple[int, int] | None = None
    actions: tuple[str, ...] | None = None
    images: tuple[str, ...] = ()
    content: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What a judge says of one example.

    `reward` lies in [0, 1]; None means that the judge could not say (an unreadable answer, no gold
    answer to compare with), which is not the same as 0. `verdict` is a word or two.
    """

    reward: float | None
    verdict: str
    detail: str | None = None


Keep = Callable[[Example, Verdict], None]


class Judge(Protocol):
    """`reads` names the fields of an example that its verdict depends on beside the content."""

    reads: ClassVar[tuple[str, ...]]

    def judge(self, examples: Iterable[Example], keep: Keep) -> None:
        """Calls `keep` once for every example as soon as its verdict is known, in any order.

        `examples` is gone through once, no further than needed: there may be more than fit into
        memory.
        """


class OneByOne(ABC):
    """A judge that looks at one example at a time."""

    reads: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def verdict(self, example: Example) -> Verdict: ...

    def judge(self, examples: Iterable[Example], keep: Keep) -> None:
        for example in examples:
            keep(example, self.verdict(example))


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a chat message; an image stands as `[image]`."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] if part["type"] == "text" else "[image]" for part in content)


def last_user_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """The text of the last user message: what is asked now; empty when no user speaks."""
    said = [message for message in messages if message["role"] == "user"]
    return message_text(said[-1]) if said else ""
