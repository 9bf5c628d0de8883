"""The gallery: some held-out steps to look at, with what was recorded and what each model said.

Of every family the rows with the smallest hash of (seed, row id) are shown, so that the choice is
the same every time and new rows seldom change it. Screenshots are shrunk; marks are drawn over them
by the page, in the screenshot's own pixels.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from adaptermill.evaluation.answers import Comparison, actions_of, compare, parse_json
from adaptermill.evaluation.markdown import number
from adaptermill.evaluation.predictions import VALIDATION
from adaptermill.rows.dataset import open_sources
from adaptermill.rows.images import decode

COLUMNS = [
    *("row_id", "task_id", "family", "step", "op", "variant", "nll", "greedy_match"),
    *("predicted", "target", "screen_width", "screen_height"),
]
# Answers in the page, over all rows and adapters: many adapters make for fewer rows.
MOST_ANSWERS = 1500
LEAST_PER_FAMILY = 3
_SIDE = 640
_TASK, _TEXT, _LINE = 400, 1500, 240


@dataclass(frozen=True)
class Mark:
    """Something drawn on the screenshot, in its pixels.

    `kind` is point (x, y), drag (x, y to x2, y2) or box (x, y: left and top; x2, y2: the others).
    """

    kind: str
    x: float
    y: float
    x2: float | None = None
    y2: float | None = None


@dataclass(frozen=True)
class Said:
    """One answer: its actions as text, where they act, and the lines of the elements they name."""

    text: str
    readable: bool
    marks: list[Mark]
    elements: list[str]


@dataclass
class Answer:
    """What some adapters answered alike.

    Where no answer was generated `said` is None, and `right` tells whether the recorded action is
    the most likely one, token by token.
    """

    adapters: list[str]
    said: Said | None
    right: bool
    why: str


@dataclass
class Step:
    """One held-out row."""

    row_id: str
    family: str
    op: str
    variant: str
    task: str
    recorded: Said
    answers: list[Answer]
    picture: str | None = None
    width: int = 0
    height: int = 0
    radius: float = 0.0


@dataclass(frozen=True)
class Gallery:
    """Steps in the order of families, and of how many rows they are drawn."""

    steps: list[Step]
    rows: int
    per_family: int
    seed: int
    generated: bool


def gallery(
    evaluations: Sequence[Path], data: Sequence[Path], per_family: int, seed: int, tolerance: float
) -> Gallery:
    """Reads the predictions of every adapter, and the prompts and screenshots of some rows."""
    shown = [("side", "==", VALIDATION)]
    first = pq.read_table(evaluations[0], columns=["row_id", "family"], filters=shown).to_pylist()
    families = {line["family"] for line in first}
    if families:
        share = MOST_ANSWERS // (len(evaluations) * len(families))
        per_family = min(per_family, max(LEAST_PER_FAMILY, share))
    chosen = _sample(first, per_family, seed)
    by_row: dict[str, list[tuple[str, dict[str, Any]]]] = {name: [] for name in chosen}
    for path in evaluations if chosen else ():
        wanted = pq.read_table(path, columns=COLUMNS, filters=[("row_id", "in", chosen)])
        for line in wanted.to_pylist():
            by_row[line["row_id"]].append((path.stem, line))
    rows, images = open_sources(data) if chosen else (None, None)
    steps = []
    for row_id in chosen:
        row = rows.get(row_id)
        step = _step(by_row[row_id], row.messages, tolerance)
        if row.images:
            step.picture = _picture(images.bytes(row.images[-1]))
        steps.append(step)
    generated = any(answer.said for step in steps for answer in step.answers)
    return Gallery(steps, len(first), per_family, seed, generated)


def _sample(rows: Sequence[Mapping[str, Any]], per_family: int, seed: int) -> list[str]:
    def rank(row_id: str) -> str:
        return hashlib.sha256(f"{seed}:{row_id}".encode()).hexdigest()

    chosen = []
    for family in sorted({row["family"] for row in rows}):
        names = [row["row_id"] for row in rows if row["family"] == family]
        chosen += sorted(sorted(names, key=rank)[:per_family])
    return chosen


def _step(
    lines: Sequence[tuple[str, Mapping[str, Any]]],
    messages: Sequence[Mapping[str, Any]],
    tolerance: float,
) -> Step:
    _, line = lines[0]
    prompt = _prompt(messages)
    screen = None
    if line["screen_width"] is not None:
        screen = (line["screen_width"], line["screen_height"])
    answers: dict[str, Answer] = {}
    for name, each in lines:
        if each["predicted"] is None:
            why = f"NLL {number(each['nll'])}"
            answers[name] = Answer([name], None, each["greedy_match"], why)
            continue
        compared = compare(each["predicted"], each["target"], screen, tolerance)
        said = describe(each["predicted"], prompt)
        right = compared.step_success
        alike = f"{right} {said.text}"
        if alike in answers:
            answers[alike].adapters.append(name)
        else:
            answers[alike] = Answer([name], said, right, _why(compared))
    width, height = screen or (0, 0)
    return Step(
        row_id=line["row_id"],
        family=line["family"],
        op=line["op"],
        variant=line["variant"],
        task=task_of(prompt),
        recorded=describe(line["target"], prompt),
        # Right answers first, then by how many gave them.
        answers=sorted(answers.values(), key=lambda a: (not a.right, -len(a.adapters))),
        width=width,
        height=height,
        radius=tolerance * (width**2 + height**2) ** 0.5,
    )


def _why(compared: Comparison) -> str:
    if compared.step_success:
        return "right"
    if compared.json_valid is False:
        return "not one JSON object"
    wrong = [
        word
        for word, right in (
            ("action", compared.op_match),
            ("target", compared.target_match),
            ("arguments", compared.args_match),
        )
        if right is False
    ]
    return "wrong " + " and ".join(wrong) if wrong else "not the recorded answer"


# ---- what an answer says -----------------------------------------------------------------------


def describe(answer: str, prompt: str) -> Said:
    """The actions of an answer; the whole text where they cannot be read."""
    actions = actions_of(parse_json(answer))
    if actions is None:
        return Said(_cut(answer, _TEXT), False, [], [])
    texts, marks, elements = [], [], []
    for entry, action in zip(parse_json(answer)["action"], actions, strict=True):
        given = ", ".join(
            f"{key}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in (entry[action.name] or {}).items()
            if value is not None
        )
        texts.append(f"{action.name}({given})")
        marks += _marks(action.points, action.args)
        if action.index is not None and (line := element_line(prompt, action.index)):
            elements.append(line)
    return Said(_cut("\n".join(texts), _TEXT), True, marks, elements)


def _marks(points: Mapping[str, tuple[float, float]], args: Mapping[str, Any]) -> list[Mark]:
    places = {name: at for name, at in points.items() if all(abs(part) < 1e6 for part in at)}
    start = next((at for name, at in places.items() if name.startswith("start")), None)
    end = next((at for name, at in places.items() if name.startswith("end")), None)
    if start and end:
        return [Mark("drag", *start, *end)]
    boxes = [value for name, value in args.items() if name in ("box", "bbox") and _is_box(value)]
    return [
        *(Mark("point", *at) for at in places.values()),
        *(Mark("box", *box) for box in boxes),
    ]


def _is_box(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 4
        and all(isinstance(part, int | float) and abs(part) < 1e6 for part in value)
    )


def element_line(prompt: str, index: Any) -> str | None:
    """The line of the prompt's element list that begins with that index."""
    if not isinstance(index, int):
        return None
    found = re.search(rf"^[^\[\n]*\[{index}\].*(?:\n\t+[^\[\n]+)?", prompt, flags=re.MULTILINE)
    return _cut(" ".join(found[0].split()), _LINE) if found else None


def _prompt(messages: Sequence[Mapping[str, Any]]) -> str:
    """The text of the last user message: what the agent saw in this step."""
    for message in reversed(messages):
        if message["role"] == "user":
            content = message["content"]
            if isinstance(content, str):
                return content
            return "\n".join(str(part.get("text", "")) for part in content)
    return ""


def task_of(prompt: str) -> str:
    """What the user asked for, where the prompt marks it; else its first words."""
    found = re.search(r"<user_request>(.*?)</user_request>", prompt, flags=re.DOTALL)
    named = found or re.search(r"^(?:Task|Goal|Objective):(.*)$", prompt, flags=re.MULTILINE)
    return _cut(" ".join((named[1] if named else prompt).split()), _TASK)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} … ({len(text) - limit} more characters)"


def _picture(data: bytes) -> str:
    """The screenshot as a data: URL, at most 640 pixels a side."""
    image = decode(data)
    small = max(image.size) <= _SIDE // 2
    image.thumbnail((_SIDE, _SIDE))
    written = io.BytesIO()
    image.save(written, "WEBP", lossless=small, quality=72, method=4)
    return "data:image/webp;base64," + base64.b64encode(written.getvalue()).decode("ascii")
