"""Rollouts of a multi-agent system: a folder per run, JSONL, a line per rollout.

Every message of a rollout is a row: what one agent (a *seat*) was shown, and what it said. Its
episode and its source, by which it is held out, is the query, so that all rollouts and seats of a
query fall on one side. Family is the agent's role, op the kind of answer that the query wants.

A rollout whose line is wrong is refused as a whole, and counts as one line; of a rollout that is
read, each message counts as a line, and one that says nothing is refused alone.

A message's `prefill`, text that was given at the start of its output, ends the prompt: the row's
last message is the assistant's, marked `"prefill": true`, and the target is what follows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from adaptermill.rows.readers import lines, streams
from adaptermill.rows.readers.jsonl import JsonlReader
from adaptermill.rows.readers.places import images_below
from adaptermill.rows.readers.reader import Draft, Line, Unit
from adaptermill.rows.records import Problem, check_record, expect, parse
from adaptermill.rows.schema import dump, image_parts

ANSWER_TYPES = ("math", "choice", "exact", "code_output", "safety")
SYSTEMS = ("sequential", "hierarchical")
# Of a message, what the row itself holds.
_USED = frozenset(["agent", "role", "prompt", "output", "prefill"])


class TrajectoriesReader(JsonlReader):
    """Reads rollouts, each with its `messages_by_agent`."""

    unit: ClassVar[str] = "run of line"
    # The files of a run's folder, and of the runs' folders below a folder.
    patterns: ClassVar[Sequence[str]] = ("*", "*/*")
    suffixes: ClassVar[Sequence[str]] = (".jsonl", ".jsonl.gz", ".jsonl.zst")

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._ranges = streams.Ranges()
        self._arrays: dict[Path, bool] = {}

    @classmethod
    def place(cls, path: Path) -> tuple[Path, str]:
        """Files of several runs may have one name, so the run's folder stands before it."""
        whole = path.absolute()
        return whole.parent.parent, f"{whole.parent.name}/{whole.name}"

    @classmethod
    def label(cls, path: Path) -> str:
        return f"{path.absolute().parent.name}-{super().label(path)}"

    @classmethod
    def _images(cls, data: bytes, folder: Path) -> list[str]:
        if b"image" not in data and b"\\u" not in data:
            return []
        try:
            spoken = json.loads(data.removeprefix(lines.BOM))["messages_by_agent"]
            parts = [part for message in spoken for part in image_parts(message["prompt"])]
            return images_below([part["image_url"]["url"] for part in parts], folder)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return []  # no row comes of the line

    def lines(self, unit: Unit) -> Iterator[Line]:
        """The messages of the run's rollouts, and the lines that hold no rollout."""
        for line in super().lines(unit):
            if line.reason is not None:
                yield line
                continue
            try:
                records = messages_of(parse(line.data))
            except Problem as problem:
                yield Line(line.file, line.number, line.data, problem.reason, problem.message)
                continue
            for record in records:
                yield Line(line.file, line.number, dump(record).encode("utf-8"))

    def draft(self, record: dict[str, Any], line: Line, unit: Unit) -> Draft:
        """One message, as `messages_of` made it."""
        name = f"{self.label(unit.path)}-{line.number}.{record['step']}"
        return Draft(record, record, source=record["task_id"], name=name, name_images=True)


def messages_of(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages of one rollout as records of rows, in the order in which they were said.

    Under `rollout` each has what the line says of the rollout, under `message` what else its own
    entry says. Raises `Problem` for a rollout that is not whole.
    """
    rollout = _checked(line)
    made = []
    for position, message in enumerate(line["messages_by_agent"]):
        where = f"messages_by_agent[{position}]"
        record = _record(where, position, message, rollout)
        try:
            check_record(record)
        except Problem as problem:
            if problem.reason != "empty_target":
                raise Problem(problem.reason, f"{where}: {problem.message}") from None
        made.append(record)
    return made


def _checked(line: Mapping[str, Any]) -> dict[str, Any]:
    """What the line says of the rollout as a whole."""
    for name in ("query_id", "query", "answer_type", "rollout", "seed", "messages_by_agent"):
        if name not in line:
            raise Problem("missing_field", f"there is no {name!r}")
    query_id = line["query_id"]
    if isinstance(query_id, int) and not isinstance(query_id, bool):
        query_id = str(query_id)
    expect("query_id", query_id, str)
    expect("query", line["query"], str)
    expect("messages_by_agent", line["messages_by_agent"], list)
    if not query_id or not line["messages_by_agent"]:
        name = "messages_by_agent" if query_id else "query_id"
        raise Problem("missing_field", f"{name} is empty")
    for name in ("rollout", "seed"):
        expect(name, line[name], int)
    _one_of("answer_type", line["answer_type"], ANSWER_TYPES)
    if line.get("system") is not None:
        _one_of("system", line["system"], SYSTEMS)
    for name in ("final_text", "collected_with"):
        if line.get(name) is not None:
            expect(name, line[name], str)
    reward = line.get("reward")
    if reward is not None and (
        isinstance(reward, bool) or not isinstance(reward, (int, float)) or not 0 <= reward <= 1
    ):
        raise Problem("wrong_type", f"reward is {reward!r}, not a number from 0 to 1")
    rest = {name: value for name, value in line.items() if name != "messages_by_agent"}
    return {**rest, "query_id": query_id}


def _one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise Problem("wrong_type", f"{name} is {value!r}, not one of {', '.join(allowed)}")


def _record(where: str, position: int, message: Any, rollout: Mapping[str, Any]) -> dict[str, Any]:
    expect(where, message, dict)
    for name in ("agent", "role", "prompt", "output"):
        if name not in message:
            raise Problem("missing_field", f"{where} has no {name!r}")
    expect(f"{where}.agent", message["agent"], int)
    if not 0 <= message["agent"] < 2**31:
        raise Problem("wrong_type", f"{where}.agent is {message['agent']}, not a count from 0")
    for name in ("role", "output"):
        expect(f"{where}.{name}", message[name], str)
    expect(f"{where}.prompt", message["prompt"], list)
    prompt, target = list(message["prompt"]), message["output"]
    prefill = message.get("prefill")
    if prefill:
        expect(f"{where}.prefill", prefill, str)
        if not target.startswith(prefill):
            text = f"{where}: the output does not begin with its prefill"
            raise Problem("prefill_mismatch", text)
        prompt.append({"role": "assistant", "content": prefill, "prefill": True})
        target = target[len(prefill) :]
    return {
        "task_id": rollout["query_id"],
        "step": position,
        "family": message["role"],
        "op": rollout["answer_type"],
        "agent": message["agent"],
        "messages": prompt,
        "target": target,
        "rollout": dict(rollout),
        "message": {name: value for name, value in message.items() if name not in _USED},
    }
