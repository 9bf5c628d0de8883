"""A line of JSON -> the record of a row, checked strictly: nothing is repaired or guessed."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from adaptermill.rows.schema import dump

# Deeper JSON could be read here and not later, since Python's limit counts all calls above it.
MAX_DEPTH = 100
# How half a surrogate pair, or a whole one, can be written in JSON that is valid UTF-8.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ROLES = ("system", "user", "assistant", "tool", "developer")


class Problem(Exception):
    """Why a line is no row: a quarantine reason and a message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def parse(data: bytes) -> dict[str, Any]:
    """The JSON object on a line; raises `Problem` for anything else."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Problem("not_utf8", f"byte {error.start + 1} is not UTF-8") from None
    try:
        record = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_constant,
            parse_float=_finite,
            strict=False,  # control characters inside strings are data
        )
    except json.JSONDecodeError as error:
        raise Problem("json_syntax", f"column {error.pos + 1}: {error.msg}") from None
    except RecursionError:
        raise Problem("json_syntax", "nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise Problem("json_syntax", str(error)) from None
    if not isinstance(record, dict):
        raise Problem("not_an_object", f"a {type(record).__name__}, not a JSON object")
    if _is_deep(record):
        raise Problem("json_syntax", f"nested more than {MAX_DEPTH} deep")
    try:
        if _SURROGATE.search(text):
            dump(record).encode("utf-8")
    except UnicodeEncodeError:
        message = "a string holds half of a surrogate pair (\\ud800 to \\udfff)"
        raise Problem("lone_surrogate", message) from None
    return record


def _is_deep(record: dict[str, Any]) -> bool:
    level: list[Any] = [record]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = Counter(name for name, _ in pairs)
        repeated = next(name for name, count in names.items() if count > 1)
        raise Problem("duplicate_key", f"the key {repeated!r} stands twice in one object")
    return made


def _constant(name: str) -> float:
    raise Problem("non_finite_number", f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Problem("non_finite_number", f"{text} is too large for a number")
    return value


def check_record(record: Mapping[str, Any]) -> None:
    """Raises `Problem` unless the record has all that a row needs, with the right types."""
    wanted = {
        "task_id": str,
        "step": int,
        "family": str,
        "op": str,
        "messages": list,
        "target": str,
    }
    for name, kind in wanted.items():
        if name not in record:
            raise Problem("missing_field", f"there is no {name!r}")
        expect(name, record[name], kind)
    for name in ("family", "op"):
        if not record[name]:
            raise Problem("missing_field", f"{name} is empty")
    if not 0 <= record["step"] < 2**31:
        raise Problem("wrong_type", f"step is {record['step']}, not a count from 0")
    for name in ("inject", "aug_prefix"):
        value = record.get(name)
        if value is not None and not isinstance(value, (str, bool, dict)):
            raise Problem("wrong_type", f"{name} is a {type(value).__name__}")
    if not record["messages"]:
        raise Problem("missing_field", "messages is empty")
    for position, message in enumerate(record["messages"]):
        _check_message(f"messages[{position}]", message)
    if not record["target"].strip():
        raise Problem("empty_target", "target is empty")


def expect(name: str, value: Any, kind: type) -> None:
    """Raises `Problem` unless `value` is of that JSON type (a bool is no int)."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        message = f"{name} is a {type(value).__name__}, not a {kind.__name__}"
        raise Problem("wrong_type", message)


def _check_message(where: str, message: Any) -> None:
    expect(where, message, dict)
    for name in ("role", "content"):
        if name not in message:
            raise Problem("missing_field", f"{where} has no {name!r}")
    if message["role"] not in _ROLES:
        raise Problem("wrong_type", f"{where}.role is {message['role']!r}; one of {_ROLES}")
    content = message["content"]
    if isinstance(content, str):
        return
    expect(f"{where}.content", content, list)
    for position, part in enumerate(content):
        here = f"{where}.content[{position}]"
        expect(here, part, dict)
        kind = part.get("type")
        if kind == "text":
            expect(f"{here}.text", part.get("text"), str)
        elif kind == "image_url":
            expect(f"{here}.image_url", part.get("image_url"), dict)
            expect(f"{here}.image_url.url", part["image_url"].get("url"), str)
        else:
            raise Problem("wrong_type", f"{here}.type is {kind!r}, not 'text' or 'image_url'")
