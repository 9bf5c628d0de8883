"""ShareGPT conversations as LLaMA-Factory reads them.

A line (or an element of a JSON array) is `{"conversations": [{"from", "value"}, …]}` or
`{"messages": [{"role", "content"}, …]}`, with `system` and `images` beside it. Every `<image>` in
the turns stands for the next of `images`, which lie below the file's folder. With `chosen` and
`rejected`, the chosen turn is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adaptermill.rows.readers.conversation import Conversation, image_part, listed
from adaptermill.rows.readers.jsonl import JsonlReader
from adaptermill.rows.records import Problem, expect

MARK = "<image>"
_ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
}
_TOOL_ROLES = ("function_call", "observation", "function", "tool")


class SharegptReader(JsonlReader):
    """Reads `conversations` or `messages` with `<image>` marks."""

    @classmethod
    def converse(cls, record: Mapping[str, Any]) -> Conversation:
        for name in ("videos", "audios"):
            if record.get(name):
                raise Problem("unsupported", f"{name}: rows hold text and images")
        name = "messages" if "conversations" not in record else "conversations"
        turns = [_turn(f"{name}[{k}]", turn) for k, turn in enumerate(listed(record, name))]
        if record.get("chosen") is not None:
            turns.append(_turn("chosen", record["chosen"]))
        system = record.get("system")
        if system is not None:
            expect("system", system, str)
        if system and turns[0][0] == "system":
            raise Problem("unsupported", "there is a `system` and a first turn of the system too")
        if system:
            turns.insert(0, ("system", system))
        role, target = turns.pop()
        if role != "assistant":
            raise Problem("no_answer", f"the last turn is of {role!r}, not of the assistant")
        if MARK in target:
            raise Problem("image_marks", f"the answer holds {MARK}")
        shown = _images(record)
        marks = sum(text.count(MARK) for _, text in turns)
        if marks != len(shown):
            raise Problem("image_marks", f"{marks} {MARK} marks and {len(shown)} images")
        rest = iter(shown)
        messages = [{"role": role, "content": _content(text, rest)} for role, text in turns]
        used = frozenset([name, "images", "system", "chosen"])
        untrainable = "undesired" if record.get("kto_tag") is False else None
        return Conversation(messages, target, used, untrainable)


def _turn(where: str, turn: Any) -> tuple[str, str]:
    """(role, text) of one turn, in either spelling."""
    expect(where, turn, dict)
    names = ("role", "content") if "role" in turn else ("from", "value")
    for name in names:
        if name not in turn:
            raise Problem("missing_field", f"{where} has no {name!r}")
        expect(f"{where}.{name}", turn[name], str)
    role, text = (turn[name] for name in names)
    if role in _TOOL_ROLES:
        raise Problem("unsupported", f"{where} is a tool's turn ({role}); a row's answers are text")
    if role not in _ROLES:
        raise Problem("wrong_type", f"{where}.{names[0]} is {role!r}; one of {', '.join(_ROLES)}")
    return _ROLES[role], text


def _images(record: Mapping[str, Any]) -> list[str]:
    images = record.get("images")
    images = [images] if isinstance(images, str) else images or []
    expect("images", images, list)
    for position, image in enumerate(images):
        expect(f"images[{position}]", image, str)
    return images


def _content(text: str, images: Iterator[str]) -> str | list[dict[str, Any]]:
    """The text, or parts with an image in place of every mark."""
    if MARK not in text:
        return text
    parts: list[dict[str, Any]] = []
    for position, piece in enumerate(text.split(MARK)):
        if position:
            parts.append(image_part(next(images)))
        if piece:
            parts.append({"type": "text", "text": piece})
    return parts
