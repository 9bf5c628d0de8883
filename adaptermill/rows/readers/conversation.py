"""Chat messages of other formats as a prompt and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adaptermill.rows.records import Problem, expect


@dataclass(frozen=True)
class Conversation:
    """The messages that lead to the answer, and the answer's text.

    `used` names the keys of the line that this was made of; all others are kept beside it.
    `untrainable` is why the answer is not to be learned, in a word (schema.py has them).
    """

    messages: list[dict[str, Any]]
    target: str
    used: frozenset[str]
    untrainable: str | None = None


def listed(record: Mapping[str, Any], name: str) -> list[Any]:
    """The list under `name`; `Problem` where it is missing, empty or something else."""
    if name not in record:
        raise Problem("missing_field", f"there is no {name!r}")
    expect(name, record[name], list)
    if not record[name]:
        raise Problem("missing_field", f"{name} is empty")
    return record[name]


def refuse_tools(where: str, message: Mapping[str, Any]) -> None:
    """`Problem` for a message that calls a tool, or that says nothing because it does."""
    if message.get("tool_calls") or message.get("function_call"):
        text = f"{where} calls a tool by the API's own means; a row's answers are text"
        raise Problem("unsupported", text)
    if message.get("role") == "function":
        raise Problem("unsupported", f"{where} is a function's result (role `function`)")


def answered(messages: Sequence[Any], where: str) -> tuple[list[dict[str, Any]], str, str | None]:
    """The messages before the last one, its text, and why it is not to be learned, if so.

    The last message is the assistant's; `weight` 0 on it says that it is not to be learned, and
    means nothing on an earlier one: those are context here.
    """
    prompt = []
    for position, message in enumerate(messages):
        here = f"{where}[{position}]"
        expect(here, message, dict)
        refuse_tools(here, message)
        weight = message.get("weight", 1)
        if isinstance(weight, bool) or weight not in (0, 1):
            raise Problem("wrong_type", f"{here}.weight is {weight!r}, not 0 or 1")
        prompt.append({name: value for name, value in message.items() if name != "weight"})
    last = prompt.pop()
    if last.get("role") != "assistant":
        text = f"{where} ends with a message of {last.get('role')!r}, not with the assistant's"
        raise Problem("no_answer", text)
    untrainable = None if messages[-1].get("weight", 1) == 1 else "weight_zero"
    return prompt, text_of(last, f"{where}[{len(prompt)}]"), untrainable


def text_of(message: Mapping[str, Any], where: str) -> str:
    """The text of an answer: a string, or text parts put together."""
    if "content" not in message:
        raise Problem("missing_field", f"{where} has no 'content'")
    content = message["content"]
    if isinstance(content, str):
        return content
    expect(f"{where}.content", content, list)
    texts = []
    for position, part in enumerate(content):
        here = f"{where}.content[{position}]"
        expect(here, part, dict)
        if part.get("type") != "text":
            raise Problem("unsupported", f"{here}: an answer is text, not {part.get('type')!r}")
        expect(f"{here}.text", part.get("text"), str)
        texts.append(part["text"])
    return "".join(texts)


def image_part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}
