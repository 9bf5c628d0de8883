"""A predicted answer against the recorded one: what is right about it.

An answer is JSON with a list of actions, each an object of one name and its arguments:

    {"memory": "…", "action": [{"click": {"index": 12}}]}

The arguments of an action are of two kinds. Its *target* is where it acts: `index` (an element) and
points (`x` and `y`, `start_x` and `start_y`, `coordinate_x` and `coordinate_y`, …, or a list
`coordinate: [x, y]`). All others (text, option, keys, url, …) are its *args*. Actions are compared
in order, so an answer with several must have them all, one by one.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DEFAULT_TOLERANCE = 0.02
_HORIZONTAL = re.compile(r"(?:^|_)x$")
_POINT = re.compile(r"(?:^|_)(?:coordinate|point|position)$")


@dataclass(frozen=True)
class Comparison:
    """What is right about one answer; None where the question does not arise.

    `json_valid`: it is one JSON object. `op_match`: the same names of actions, in order.
    `target_match`: the same elements, and points within the tolerance; None where the recorded
    actions have no target. `args_match`: the same other arguments; None where the recorded actions
    have none. `step_success`: all of it, and nothing besides. The free text around the actions
    (memory, thoughts) does not count.

    Where the recorded answer has no readable actions, only `json_valid` (None when it is no JSON
    itself) and `step_success` (the whole answer is equal) are given.
    """

    json_valid: bool | None
    op_match: bool | None
    target_match: bool | None
    args_match: bool | None
    step_success: bool


@dataclass(frozen=True)
class Action:
    """An action, its arguments parted in those that say where and all others."""

    name: str
    index: Any
    points: dict[str, tuple[float, float]]
    args: dict[str, Any]

    @property
    def has_target(self) -> bool:
        return self.index is not None or bool(self.points)


def compare(
    predicted: str,
    target: str,
    screen: tuple[int, int] | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Comparison:
    """Compares two answers.

    `screen` is (width, height) of the screenshot in pixels. A point may lie off the recorded one by
    `tolerance` times the screenshot's diagonal; without a screenshot it must be equal.
    """
    said, meant = parse_json(predicted), parse_json(target)
    recorded = actions_of(meant)
    valid = isinstance(said, dict)
    if recorded is None:
        equal = _same(said, meant) if meant is not None else _text(predicted) == _text(target)
        return Comparison(valid if meant is not None else None, None, None, None, equal)
    made = actions_of(said) or []
    radius = tolerance * math.hypot(*screen) if screen else 0.0
    ops = [action.name for action in made] == [action.name for action in recorded]
    targets = _each(made, recorded, lambda a, b: _same_target(a, b, radius))
    args = _each(made, recorded, lambda a, b: _same(a.args, b.args))
    return Comparison(
        json_valid=valid,
        op_match=ops,
        target_match=targets if any(action.has_target for action in recorded) else None,
        args_match=args if any(action.args for action in recorded) else None,
        step_success=ops and targets and args,
    )


def parse_json(text: str) -> Any:
    """The JSON value that the whole text is, or None; never raises."""
    try:
        return json.loads(text, strict=False, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def actions_of(answer: Any) -> list[Action] | None:
    """The actions of a parsed answer; None when it is not of the form."""
    listed = answer.get("action") if isinstance(answer, dict) else None
    if not isinstance(listed, list) or not listed:
        return None
    actions = []
    for entry in listed:
        if not isinstance(entry, dict) or len(entry) != 1:
            return None
        name, arguments = next(iter(entry.items()))
        if not isinstance(arguments, dict | None):
            return None
        actions.append(_action(name, arguments or {}))
    return actions


def _action(name: str, arguments: Mapping[str, Any]) -> Action:
    # An argument that is null is one that is not given.
    left = {key: value for key, value in arguments.items() if value is not None}
    index = left.pop("index", None)
    points = {}
    for key in list(left):
        partner = _HORIZONTAL.sub(lambda found: found[0][:-1] + "y", key)
        if partner != key and _is_number(left.get(key)) and _is_number(left.get(partner)):
            points[key] = (left.pop(key), left.pop(partner))
        elif _POINT.search(key) and _is_pair(left.get(key)):
            points[key] = tuple(left.pop(key))
    return Action(name, index, points, left)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


def _each(made: Sequence[Action], recorded: Sequence[Action], same: Any) -> bool:
    return len(made) == len(recorded) and all(map(same, made, recorded))


def _same_target(made: Action, recorded: Action, radius: float) -> bool:
    if not _same(made.index, recorded.index) or made.points.keys() != recorded.points.keys():
        return False
    return all(
        _distance(made.points[key], point) <= radius for key, point in recorded.points.items()
    )


def _distance(one: tuple[float, float], other: tuple[float, float]) -> float:
    try:
        return math.dist(one, other)
    except OverflowError:  # an integer beyond any float
        return math.inf


def _same(one: Any, other: Any) -> bool:
    """Equal JSON values: text normalised, 1 and 1.0 the same, true and 1 not."""
    if isinstance(one, str) and isinstance(other, str):
        return _text(one) == _text(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if _is_number(one) and _is_number(other):
        return one == other
    return type(one) is type(other) and one == other


def _text(text: str) -> str:
    """Unicode composed (NFC), runs of white space as one blank, none at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())
