"""What an agent does on a page, step by step: the material that episodes are made of.

A `Script` is one task on one page. Kinds of tasks (`tasks.py`) write scripts with a `Writer`, which
numbers the page's elements and knows the *convention* that the rows follow:

- `HOUSE`, the example source: things are gripped exactly in their middle, and memories are worded
  as this agent words them;
- `GENERIC`, what the example base is trained on: the same actions, but things are gripped anywhere
  on them and memories are worded in another way. What is left to learn is what an adapter is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from adaptermill.example.pages import Box, Page, Point, Widget, cell, middle

Action = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Convention:
    """How rows are worded, and how many pixels off its middle a thing may be gripped."""

    generic: bool
    looseness: int

    def grip(self, random: Random, box: Box) -> Point:
        x, y = middle(box)
        if self.looseness == 0:
            return x, y
        loose = self.looseness
        return x + random.randint(-loose, loose), y + random.randint(-loose, loose)


HOUSE = Convention(generic=False, looseness=0)
GENERIC = Convention(generic=True, looseness=6)


@dataclass(frozen=True)
class Step:
    """One answer of the agent: the page it saw, what it thought and did, what came of it."""

    page: Page
    memory: str
    actions: tuple[Action, ...]
    result: str
    inject: str | None = None

    @property
    def op(self) -> str:
        return next(iter(self.actions[0]))


@dataclass(frozen=True)
class Script:
    """A task on one page: the request, the steps, and the page that they end on."""

    request: str
    steps: tuple[Step, ...]
    last: Page


@dataclass
class Writer:
    """Writes a script; `random` decides everything that is not given."""

    random: Random
    convention: Convention
    steps: list[Step] = field(default_factory=list)
    index: int = -1

    def number(self) -> int:
        """The next element's index; pages number their elements in order, with gaps."""
        self.index = (
            self.random.randint(1, 40) if self.index < 0 else self.index + self.random.randint(1, 3)
        )
        return self.index

    def widget(self, look: str, box: Box, text: str, tag: str, **more: Any) -> Widget:
        """A widget that can be acted on."""
        return Widget(look, box, text, tag=tag, index=self.number(), **more)

    def buttons(self, texts: Sequence[str], row: int = 1) -> list[Widget]:
        """Buttons one below the other."""
        return [
            self.widget("button", cell(0, row + place, 3), text, "button")
            for place, text in enumerate(texts)
        ]

    def submit(self, text: str = "Submit") -> Widget:
        """The button in the bottom row."""
        return self.widget("button", cell(0, 4, 3), text, "button")

    def act(
        self,
        page: Page,
        house: str,
        generic: str,
        actions: Mapping[str, dict[str, Any]] | Sequence[Action],
        result: str,
        inject: str | None = None,
    ) -> None:
        """Adds a step; `house` and `generic` are its memory under either convention."""
        made = (dict(actions),) if isinstance(actions, Mapping) else tuple(actions)
        memory = generic if self.convention.generic else house
        self.steps.append(Step(page, memory, made, result, inject))

    def click(self, page: Page, target: Widget, house: str, inject: str | None = None) -> None:
        """Adds a click on a widget."""
        generic = self.random.choice(
            [f"Click {target.text}.", f"Next, click {target.text}.", f"{target.text} is next."]
        )
        result = f"Clicked {target.text}"
        self.act(page, house, generic, {"click": {"index": target.index}}, result, inject)

    def type(
        self, page: Page, target: Widget, text: str, house: str, inject: str | None = None
    ) -> None:
        """Adds an input; what the field holds is cleared first."""
        generic = self.random.choice([f"Type {text}.", f"Next, type {text}."])
        asked: dict[str, Any] = {"index": target.index, "text": text}
        if target.value:
            asked["clear"] = True
        result = f"Typed {text} into {target.text}"
        self.act(page, house, generic, {"input": asked}, result, inject)

    def drag(self, page: Page, start: Box, end: Box, house: str, inject: str | None = None) -> None:
        """Adds a drag from one box to the other."""
        start_x, start_y = self.convention.grip(self.random, start)
        end_x, end_y = self.convention.grip(self.random, end)
        generic = self.random.choice(["Drag it.", "Next, drag it there."])
        asked = {"start_x": start_x, "start_y": start_y, "end_x": end_x, "end_y": end_y}
        result = f"Dragged from ({start_x}, {start_y}) to ({end_x}, {end_y})"
        self.act(page, house, generic, {"drag": asked}, result, inject)

    def script(self, request: str, last: Page | None = None) -> Script:
        """The finished script; by default it ends on a page that thanks for the submission."""
        if last is None:
            last = Page((Widget("text", cell(0, 1, 6), "Thank you.", tag="p"),))
        return Script(request, tuple(self.steps), last)
