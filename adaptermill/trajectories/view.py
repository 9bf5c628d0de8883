"""A message as it is fitted: under another prompt than it was collected under, or its visible part.

    view = View.from_settings({"fit_prompt": None, "target_span": "visible"})
    messages, target = view.apply(row)

A `fit_prompt` is a list of chat messages, or one for each role. In their text `{query}`, `{role}`,
`{system}` (what the collected system message said) and `{context}` (what the last user message
said) are filled in; other braces stand as they are. What was given of an output stays given.

With `target_span: visible` the thought up to its last `</think>` becomes part of what is given, so
that only the text after it is supervised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adaptermill.trajectories.thinking import is_unclosed, split

Prompt = Sequence[Mapping[str, str]]
_PLACES = re.compile(r"\{(query|role|system|context)\}")


class NothingVisible(Exception):
    """The output has no text after its thoughts."""


@dataclass(frozen=True)
class View:
    """How messages are fitted. `prompts` is one prompt for all roles, or role -> prompt."""

    prompts: Prompt | Mapping[str, Prompt] | None
    visible: bool

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> View:
        return cls(settings["fit_prompt"], settings["target_span"] == "visible")

    def apply(self, record: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
        """Messages and target to train on, of a row's record; raises `NothingVisible`."""
        messages, target = list(record["messages"]), record["target"]
        given = messages.pop()["content"] if messages[-1].get("prefill") is True else ""
        prompt = self._prompt(record["family"])
        if prompt is not None:
            messages = _filled(prompt, messages, record)
        if self.visible:
            given, target = self._visible(given, target)
        if given:
            messages.append({"role": "assistant", "content": given, "prefill": True})
        return messages, target

    def _prompt(self, role: str) -> Prompt | None:
        return self.prompts.get(role) if isinstance(self.prompts, Mapping) else self.prompts

    def _visible(self, given: str, target: str) -> tuple[str, str]:
        # A tag that was given itself leaves all of the target visible.
        thought, text = split(target) if "</think>" in target else ("", target)
        if is_unclosed(given + target) or not text.strip():
            raise NothingVisible("there is no text after </think>")
        return given + thought, text


def _filled(
    prompt: Prompt, collected: Sequence[Mapping[str, Any]], record: Mapping[str, Any]
) -> list[dict[str, Any]]:
    values = {
        "query": record["rollout"]["query"],
        "role": record["family"],
        "system": _last_text(collected, "system"),
        "context": _last_text(collected, "user"),
    }

    def fill(text: str) -> str:
        # All at once: what is filled in is not looked at again.
        return _PLACES.sub(lambda found: values[found[1]], text)

    return [{"role": message["role"], "content": fill(message["content"])} for message in prompt]


def _last_text(messages: Sequence[Mapping[str, Any]], role: str) -> str:
    """The text of the last message of that role, empty where there is none."""
    for message in reversed(messages):
        if message["role"] == role:
            content = message["content"]
            if isinstance(content, str):
                return content
            return "".join(part["text"] for part in content if part["type"] == "text")
    return ""
