"""Family and action name of rows from formats that know neither."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from adaptermill.rows.records import Problem, expect

# The action of an answer that is no JSON with actions.
ANSWER = "answer"


def action_name(target: str) -> str:
    """The first action's name in `{"action": [{name: parameters}, …]}`, else `answer`."""
    try:
        action = json.loads(target)["action"]
        name = next(iter(action[0]))
    except (ValueError, RecursionError, LookupError, TypeError, StopIteration):
        return ANSWER
    return name if isinstance(action[0], dict) and name else ANSWER


class Families:
    """The configuration's rule: `constant`, `column` or `ops` (action name -> family)."""

    def __init__(self, rule: Mapping[str, Any]) -> None:
        self.constant: str | None = rule.get("constant")
        self.column: str | None = rule.get("column")
        self.ops: Mapping[str, str] = rule.get("ops") or {}

    def of(self, record: Mapping[str, Any], op: str) -> str:
        """The family of the line `record` whose action is `op`; `Problem` where there is none."""
        if self.constant is not None:
            return self.constant
        if self.column is not None:
            if self.column not in record:
                raise Problem("missing_field", f"there is no {self.column!r} (the family's column)")
            expect(self.column, record[self.column], str)
            return record[self.column]
        if op not in self.ops:
            named = ", ".join(self.ops)
            raise Problem("no_family", f"families.ops names no family for {op!r}, only for {named}")
        return self.ops[op]
