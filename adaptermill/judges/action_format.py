"""`kind: action_format`: whether an answer is one that the agent's environment could carry out.

The answer must be a JSON object with a list of actions, every action known, every element index in
the prompt's element list, and every point inside the screen. Settings:

- `actions`: the known names; null takes those of the example's source.
- `coordinates`: where points may lie: `viewport` (inside the screenshot, in its pixels), `thousand`
  (0 to 1000 on both axes) or `any`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from adaptermill.evaluation.answers import Action, actions_of, parse_json
from adaptermill.judges.judge import Example, OneByOne, Verdict, last_user_text

# How browser agents mark elements: `[12]<button />`, `[12] link "Home"`.
_ELEMENT = re.compile(r"\[(\d+)\]")
# Pairs that say how far, not where.
_DISTANCE = re.compile(r"delta|offset|scroll|distance")


class ActionFormat(OneByOne):
    reads = ("actions", "screen")

    def __init__(self, actions: list[str] | None, coordinates: str) -> None:
        self.actions = actions
        self.coordinates = coordinates

    def verdict(self, example: Example) -> Verdict:
        answer = parse_json(example.output)
        if not isinstance(answer, dict):
            return Verdict(0.0, "not_json", "the answer is no JSON object")
        actions = actions_of(answer)
        if actions is None:
            return Verdict(0.0, "no_actions", "the answer has no list of actions, one name each")
        known = self.actions if self.actions is not None else example.actions
        listed = set(_ELEMENT.findall(last_user_text(example.messages)))
        for action in actions:
            fault = (
                _unknown(action, known)
                or _not_listed(action, listed)
                or self._outside(action, example)
            )
            if fault is not None:
                return fault
        return Verdict(1.0, "well_formed")

    def _outside(self, action: Action, example: Example) -> Verdict | None:
        if self.coordinates == "any":
            return None
        # Without a screenshot only the lower bound is known.
        width, height = example.screen or (math.inf, math.inf)
        if self.coordinates == "thousand":
            width = height = 1000
        for name, (x, y) in action.points.items():
            if not _DISTANCE.search(name) and not (0 <= x <= width and 0 <= y <= height):
                said = f"{action.name}.{name}: ({x}, {y}) is not inside {width}x{height}"
                return Verdict(0.0, "point_outside", said)
        return None


def _unknown(action: Action, known: Iterable[str] | None) -> Verdict | None:
    if known is None or action.name in known:
        return None
    return Verdict(0.0, "unknown_action", f"{action.name!r} is none of {', '.join(sorted(known))}")


def _not_listed(action: Action, listed: set[str]) -> Verdict | None:
    index = action.index
    if index is None:
        return None
    if isinstance(index, bool) or not isinstance(index, int) or str(index) not in listed:
        return Verdict(0.0, "index_not_listed", f"{action.name}: the prompt lists no [{index}]")
    return None
