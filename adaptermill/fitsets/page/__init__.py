"""The page that shows a fit set's examples: one HTML file that asks for nothing else.

    html = render("drag", [Group(...), ...], counts)

Whatever a row holds is data: the template escapes it, the script only hides and shows what is
there, and the page's policy lets no other script run, nothing be loaded and nothing be sent.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from adaptermill.judges.judge import message_text
from adaptermill.rows.images import decode
from adaptermill.rows.schema import Row

FOLDER = Path(__file__).resolve().parent
# Longest side in pixels that a screenshot is shown with.
LONGEST_SIDE = 960
# Characters of the prompt's last message that are shown at once.
PROMPT_END = 1200
# Characters of a whole message that are shown on request.
LONGEST_MESSAGE = 60_000


@dataclass(frozen=True)
class Example:
    """One row on the page. `kept` rows have a kind as their `reason`; `facts` are name -> value."""

    anchor: str
    row_id: str
    kept: bool
    reason: str
    stage: str
    detail: str | None
    # The anchor of the example that `detail` names, where that is on the page too.
    detail_anchor: str | None
    family: str
    facts: Mapping[str, str]
    pictures: Sequence[str]
    prompt_end: str
    cut: bool
    messages: Sequence[tuple[str, str]]
    target: str


@dataclass(frozen=True)
class Group:
    """How many rows ended that way, and how many of them are shown."""

    kept: bool
    reason: str
    rows: int
    shown: int


def prompt_end(row: Row) -> tuple[str, bool]:
    """The end of the last message before the answer, and whether more stands before it."""
    text = message_text(row.messages[-1])
    return text[-PROMPT_END:], len(text) > PROMPT_END


def shown_messages(row: Row) -> list[tuple[str, str]]:
    """(role, text) of each message; very long ones are cut in the middle, which is said."""
    found = []
    for message in row.messages:
        text = message_text(message)
        if len(text) > LONGEST_MESSAGE:
            half, left_out = LONGEST_MESSAGE // 2, len(text) - LONGEST_MESSAGE
            text = f"{text[:half]}\n[… {left_out} characters are not shown …]\n{text[-half:]}"
        found.append((message["role"], text))
    return found


def shown_target(target: str) -> str:
    """The answer; where it is a JSON object, with a line for each of its keys."""
    try:
        value = json.loads(target)
    except (ValueError, RecursionError):
        return target
    if not isinstance(value, dict) or not value:
        return target
    lines = [f"  {_json(name)}: {_json(child)}" for name, child in value.items()]
    return "{\n" + ",\n".join(lines) + "\n}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def data_url(image: bytes) -> str:
    """The picture, as small as it is shown."""
    picture = decode(image)
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=80, method=4)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _inline(name: str) -> tuple[Markup, str]:
    """A file of the page, and the hash by which the page's policy lets it in."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    return Markup(text), base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def render(adapter: str, examples: Iterable[Example], groups: Sequence[Group]) -> str:
    """The page of one fit set."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    examples = list(examples)
    style, style_hash = _inline("page.css")
    script, script_hash = _inline("page.js")
    return environment.get_template("page.html").render(
        adapter=adapter,
        examples=examples,
        groups=groups,
        families=sorted({example.family for example in examples}),
        style=style,
        style_hash=style_hash,
        script=script,
        script_hash=script_hash,
    )
