"""TRL's conversational data sets: prompt and completion, prompt with chosen and rejected, messages.

Images are `{"type": "image"}` parts, which stand for the next of `images`: file names below the
file's folder, data: URLs, or `{"path": name}`. Where no message has parts, the images stand before
the text of the first user message, as TRL puts them. The standard format (strings instead of
messages) is refused: it is continued without a chat template, which is another task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adaptermill.rows.readers.conversation import Conversation, answered, image_part, listed
from adaptermill.rows.readers.jsonl import JsonlReader
from adaptermill.rows.records import Problem, expect


class TrlReader(JsonlReader):
    """Reads `prompt` + `completion` (or `chosen`), or whole conversations."""

    @classmethod
    def converse(cls, record: Mapping[str, Any]) -> Conversation:
        names = ["messages"]
        for answer in ("completion", "chosen"):
            if answer in record:
                names = ["prompt", answer] if "prompt" in record else [answer]
                break
        messages = []
        for name in names:
            if isinstance(record.get(name), str):
                text = f"{name} is a string; write it as messages: {{role, content}}"
                raise Problem("not_conversational", text)
            messages += listed(record, name)
        shown = _images(record)
        prompt, target, untrainable = answered(messages, "+".join(names))
        prompt = _with_images(prompt, shown)
        used = frozenset([*names, "images", "image"])
        if record.get("label") is False:
            untrainable = untrainable or "undesired"
        return Conversation(prompt, target, used, untrainable)


def _images(record: Mapping[str, Any]) -> list[str]:
    images = record.get("images")
    if images is None:
        images = [] if record.get("image") is None else [record["image"]]
    expect("images", images, list)
    return [_url(f"images[{position}]", image) for position, image in enumerate(images)]


def _url(where: str, image: Any) -> str:
    if isinstance(image, dict):
        if image.get("bytes") is not None:
            raise Problem("unsupported", f"{where}: bytes in JSON; give a file or a data: URL")
        image = image.get("path")
    expect(where, image, str)
    return image


def _with_images(messages: list[dict[str, Any]], images: list[str]) -> list[dict[str, Any]]:
    """The messages with image parts that name their files; `Problem` where the counts differ."""
    rest = iter(images)
    made = [{**message, "content": _parts(message.get("content"), rest)} for message in messages]
    left = list(rest)
    if left and all(isinstance(message["content"], str) for message in made):
        first = next((message for message in made if message.get("role") == "user"), None)
        if first is not None:
            text = {"type": "text", "text": first["content"]}
            first["content"] = [*map(image_part, left), text]
            left = []
    if left:
        raise Problem("image_marks", f"{len(left)} of {len(images)} images have no image part")
    return made


def _parts(content: Any, images: Iterator[str]) -> Any:
    if not isinstance(content, list):
        return content
    return [_part(part, images) for part in content]


def _part(part: Any, images: Iterator[str]) -> Any:
    if not isinstance(part, dict) or part.get("type") != "image":
        return part
    for name in ("image", "path", "url"):
        if part.get(name) is not None:
            return image_part(_url(name, part[name]))
    url = next(images, None)
    if url is None:
        raise Problem("image_marks", "there are more image parts than images")
    return image_part(url)
