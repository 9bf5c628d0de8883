"""Example episodes: tasks of all seven families as an agent would have recorded them.

    episode = draw_episode(seed=0, index=7)
    episode.files()      # {"episode.json": b"...", "rows.jsonl": b"...", "step_000.png": b"..."}

Episode `index` depends on the seed and the index alone. Of ten episodes seven are plain, one of
each family, two are recoveries of plain ones, and one is a chain of two or three earlier ones.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from adaptermill.example.pages import BANNERS, Page
from adaptermill.example.script import HOUSE, Action, Convention, Script, Step, Writer
from adaptermill.example.tasks import FAMILIES

AGENT = "adaptermill example"
BLOCK = 10
SYSTEM = (
    "You are an agent that works in a web browser. Elements are listed as [index]<tag>text</tag>; "
    'positions are pixels of the screenshot. Answer with JSON only: {"memory": "what you know and '
    'do next", "action": [{"name": {...}}]}. Actions: click, input, drag, scroll, '
    "select_dropdown, send_keys, navigate, read_file, write_file, macro_done, done."
)


@dataclass(frozen=True)
class Part:
    """A plain task of the set, or its recovery: what it is called and how it goes."""

    name: str
    kind: str
    family: str
    number: int
    script: Script

    @property
    def url(self) -> str:
        return f"http://example.test/{self.kind}?seed={self.number}"


@dataclass(frozen=True)
class Answer:
    """One row before it is written: a step with the part it belongs to."""

    part: Part
    place: int
    step: Step
    prefix: bool = False


@dataclass(frozen=True)
class Episode:
    """An episode with its rows and the page of each."""

    described: dict[str, Any]
    rows: list[dict[str, Any]]
    pages: list[Page]

    @property
    def task_id(self) -> str:
        return self.described["task_id"]

    def files(self, image_bytes: int = 0) -> dict[str, bytes]:
        """The episode's files by name; screenshots are filled up to `image_bytes`."""
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows)
        described = json.dumps(self.described, ensure_ascii=False, indent=1) + "\n"
        files = {"episode.json": described.encode(), "rows.jsonl": "".join(lines).encode()}
        for step, page in enumerate(self.pages):
            files[screenshot_name(step)] = fill_up(page.png(), image_bytes)
        return files


def screenshot_name(step: int) -> str:
    return f"step_{step:03d}.png"


def draw_episode(seed: int, index: int) -> Episode:
    """The episode `index` of the set that `seed` names."""
    block, place = divmod(index, BLOCK)
    if place < len(FAMILIES):
        return _one_task(draw_part(f"{seed}", index), "plain")
    if place < BLOCK - 1:
        # Two families of each block have a recovery, so that all take their turn.
        family = (2 * block + place - len(FAMILIES)) % len(FAMILIES)
        part = draw_part(f"{seed}", block * BLOCK + family, mistake=True)
        return _one_task(replace(part, name=f"{part.name}~rec"), "recovery")
    return _chain(seed, index)


def draw_part(seed: str, index: int, mistake: bool = False, convention: Convention = HOUSE) -> Part:
    """The plain task `index` (its last digit names the family), or the same with a mistake."""
    block, place = divmod(index, BLOCK)
    family = list(FAMILIES)[place]
    kinds = list(FAMILIES[family])
    kind = kinds[block % len(kinds)]
    writer = Writer(Random(f"episode/{seed}/{index}"), convention)
    # A recovery is on a page of the same colour as the plain task, so from a generator of its own.
    script = _coloured(FAMILIES[family][kind](writer, mistake), Random(f"colour/{seed}/{index}"))
    return Part(f"{kind}-s{index:04d}", kind, family, index, script)


def _coloured(script: Script, random: Random) -> Script:
    """The script on a page of one colour, which every memory names first and no prompt tells."""
    names = {colour: name for name, colour in BANNERS.items()}
    drawn = BANNERS[random.choice(list(BANNERS))]

    def colour(page: Page) -> Page:
        return page if page.banner in names else replace(page, banner=drawn)

    steps = []
    for step in script.steps:
        page = colour(step.page)
        steps.append(replace(step, page=page, memory=f"{names[page.banner]} page. {step.memory}"))
    return replace(script, steps=tuple(steps), last=colour(script.last))


def _chain(seed: int, index: int) -> Episode:
    random = Random(f"chain/{seed}/{index}")
    plain = [at for at in range(index) if at % BLOCK < len(FAMILIES)] if index < 2 * BLOCK else None
    count = random.choice([2, 2, 3])
    parts: list[Part] = []
    while len(parts) < count:
        at = random.choice(plain) if plain else random.randrange(index)
        if at % BLOCK < len(FAMILIES) and all(part.number != at for part in parts):
            parts.append(draw_part(f"{seed}", at))
    return chain_of(f"chain-{index:04d}", parts)


def chain_of(name: str, parts: Sequence[Part], convention: Convention = HOUSE) -> Episode:
    """The parts one after the other, each reported as finished and the next one opened."""
    listed = [f"{n}. On {part.url} : {part.script.request}" for n, part in enumerate(parts, 1)]
    request = "\n".join(["Do these one after the other:", *listed])
    answers: list[Answer] = []
    for place, part in enumerate(parts):
        answers += [Answer(part, place, step) for step in part.script.steps]
        last = part.script.last
        summary = f"{part.kind} is finished"
        generic, house = "It is finished.", f"Part {place + 1} went through. Report it."
        answers.append(
            Answer(
                part,
                place,
                _step(last, convention, house, generic, {"macro_done": {"summary": summary}}),
            )
        )
        if place + 1 < len(parts):
            following = parts[place + 1]
            generic, house = "Go on.", f"Part {place + 2} waits on its own page. Go there."
            action: Action = {"navigate": {"url": following.url, "new_tab": False}}
            went = _step(last, convention, house, generic, action, f"Opened {following.url}")
            answers.append(Answer(following, place + 1, went))
    answers.append(Answer(parts[-1], len(parts) - 1, _done(parts, convention)))
    described = _described(name, "chain", request, answers, [part.name for part in parts])
    rows = _rows(name, request, answers)
    for row, answer in zip(rows, answers, strict=True):
        row["segment"] = {
            "index": answer.place,
            "of": len(parts),
            "task_id": parts[answer.place].name,
        }
    return Episode(described, rows, [answer.step.page for answer in answers])


def _one_task(part: Part, variant: str, convention: Convention = HOUSE) -> Episode:
    steps = part.script.steps
    wrong = next((at for at, step in enumerate(steps) if step.inject), 0)
    answers = [Answer(part, 0, step, prefix=at < wrong) for at, step in enumerate(steps)]
    answers.append(Answer(part, 0, _done([part], convention)))
    described = _described(part.name, variant, part.script.request, answers, None)
    rows = _rows(part.name, part.script.request, answers)
    return Episode(described, rows, [answer.step.page for answer in answers])


def task_episode(part: Part, convention: Convention) -> Episode:
    """The episode of one task under a convention of one's own."""
    return _one_task(part, "plain", convention)


def _step(
    page: Page,
    convention: Convention,
    house: str,
    generic: str,
    action: Action,
    result: str = "Reported",
) -> Step:
    return Step(page, generic if convention.generic else house, (action,), result)


def _done(parts: Sequence[Part], convention: Convention) -> Step:
    named = "; ".join(part.kind for part in parts)
    house = "Nothing that was asked for is left open."
    action: Action = {"done": {"text": f"Finished: {named}.", "success": True}}
    return _step(parts[-1].script.last, convention, house, "All is done.", action)


def _described(
    name: str, variant: str, request: str, answers: Sequence[Answer], parts: list[str] | None
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "task_id": name,
        "variant": variant,
        "task": request,
        "success": True,
        "n_steps": len(answers),
        "ops": [answer.step.op for answer in answers],
        "families": list(dict.fromkeys(answer.part.family for answer in answers)),
        "macros": list(dict.fromkeys(answer.part.kind for answer in answers)),
        "agent": AGENT,
    }
    if parts is not None:
        described["parts"] = parts
    return described


def _rows(name: str, request: str, answers: Sequence[Answer]) -> list[dict[str, Any]]:
    rows, history = [], ["Agent initialized"]
    url = answers[0].part.url
    for number, answer in enumerate(answers):
        step = answer.step
        row: dict[str, Any] = {
            "task_id": name,
            "step": number,
            "family": answer.part.family,
            "macro": answer.part.kind,
            "op": step.op,
            "messages": messages(request, history, url, step.page, screenshot_name(number)),
            "target": json.dumps(
                {"memory": step.memory, "action": list(step.actions)}, ensure_ascii=False
            ),
        }
        if step.inject:
            row["inject"] = step.inject
        if answer.prefix:
            row["aug_prefix"] = True
        rows.append(row)
        history.append(step.result)
        if step.op == "navigate":
            url = answer.part.url
    return rows


def messages(
    request: str, history: Sequence[str], url: str, page: Page, screenshot: str
) -> list[dict[str, Any]]:
    """The prompt of one step, in the OpenAI chat format."""
    state = (
        f"<user_request>\n{request}\n</user_request>\n"
        "<agent_history>\n" + "\n".join(history) + "\n</agent_history>\n"
        f"<browser_state>\nPage: {url}\nInteractive elements:\n{page.elements()}\n"
        "</browser_state>\n"
    )
    return [
        {"role": "system", "content": SYSTEM},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": state},
                {"type": "text", "text": "Current screenshot:"},
                {"type": "image_url", "image_url": {"url": screenshot, "detail": "auto"}},
            ],
        },
    ]


def fill_up(png: bytes, size: int) -> bytes:
    """The same picture in a file of `size` bytes: a private chunk holds incompressible noise.

    The noise is drawn from the picture, so equal pictures stay equal files. Files that are larger
    already stay as they are. (PNG specification, chapter 5: private ancillary chunks.)
    """
    missing = size - len(png) - 12
    if missing <= 0:
        return png
    noise = hashlib.shake_256(png).digest(missing)
    kind = b"noIe"
    check = zlib.crc32(kind + noise)
    chunk = struct.pack(">I", missing) + kind + noise + struct.pack(">I", check)
    end = len(png) - 12
    return png[:end] + chunk + png[end:]
