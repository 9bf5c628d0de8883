"""browser-use's AgentHistoryList JSON (`agent.save_history(path)`): a file is an episode.

A step's row shows what the file holds of the prompt: the system prompt that is configured (the file
has none), `state_message`, and the screenshot, which is looked for beside the file under the name
that `screenshot_path` ends in. The answer is the model's output as compact flash-mode JSON, nulls
left out. An episode is named by its file; a generic name (`history.json`) by its folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from adaptermill.errors import UserError
from adaptermill.hashing import FileStat, HashCache
from adaptermill.rows.readers.conversation import image_part, listed
from adaptermill.rows.readers.families import Families, action_name
from adaptermill.rows.readers.lines import BOM, MAX_LINE_BYTES
from adaptermill.rows.readers.places import images_below, named_files, with_images
from adaptermill.rows.readers.reader import Draft, Found, Line, Unit
from adaptermill.rows.records import Problem, expect, parse
from adaptermill.rows.schema import dump

GENERIC_NAMES = ("history", "agenthistory", "agent_history", "agenthistorylist")


class BrowserUseReader:
    """Reads history files, one episode each."""

    unit: ClassVar[str] = "episode"
    listed_is_all: ClassVar[bool] = False

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.families = Families(settings["families"])
        self.system: str | None = settings["system"]

    @classmethod
    def listed(cls, paths: Sequence[str]) -> Iterator[FileStat]:
        """The history files; screenshots are known once they are read."""
        for unit in cls.episodes(paths):
            yield FileStat.of(unit.path)

    @classmethod
    def episodes(cls, paths: Sequence[str]) -> list[Unit]:
        """The episodes of `paths` by name; `UserError` when two have one name."""
        wanted = "give a history file, or a folder with history files in it or in its folders"
        units: dict[str, Unit] = {}
        for file in named_files(paths, ["*.json", "*/*.json"], wanted):
            file = Path(file.parent.resolve(), file.name) if file.parent.name == "" else file
            generic = file.stem.lower() in GENERIC_NAMES
            root = file.parent.parent if generic else file.parent
            name = file.parent.name if generic else file.stem
            if name in units:
                raise UserError(
                    f"{units[name].path} and {file} are both named {name!r}; rename one, or make "
                    "it a source of its own"
                )
            units[name] = Unit(name, root, file.relative_to(root).as_posix())
        return [units[name] for name in sorted(units)]

    @classmethod
    def find(cls, paths: Sequence[str], run_bytes: float, cache: HashCache) -> Found:
        """All episodes, with the hashes of their files and screenshots."""
        contents = []
        for unit in cls.episodes(paths):

            def look(_: str, unit: Unit = unit) -> str:
                return json.dumps(_look(unit))

            try:
                file = FileStat.of(unit.path)
                sha256, images = json.loads(cache.remembered(file, look, f"{cls.__name__} "))
            except OSError as error:  # its lines are quarantined when the shard is made
                sha256, images = f"unreadable: {error.strerror}", []
            contents.append(with_images(unit, ["history", sha256], file.size, images, cache))
        return Found(contents)

    def describe(self, unit: Unit) -> dict[str, Any] | None:
        """Whether the agent said at its end that it succeeded; None for an unreadable file."""
        try:
            last = _history(_read(unit.path))[-1]["result"][-1]
        except (OSError, Problem, LookupError, TypeError):
            return None
        success = last.get("success") if isinstance(last, dict) else None
        return {"task_id": unit.name, "success": success if isinstance(success, bool) else None}

    def lines(self, unit: Unit) -> Iterator[Line]:
        """The steps of the history as lines, or one line that says why it cannot be read."""
        data = b""
        try:
            data = _read(unit.path)
            steps = _history(data)
        except OSError as error:
            message = f"the file cannot be read: {error.strerror}"
            yield Line(unit.file, 1, data, "file_unreadable", message)
            return
        except Problem as problem:
            yield Line(unit.file, 1, data, problem.reason, problem.message)
            return
        for number, step in enumerate(steps, 1):
            yield Line(unit.file, number, dump(step).encode())

    def draft(self, record: dict[str, Any], line: Line, unit: Unit) -> Draft:
        """One step as a row; what else the file holds of it is kept under `line`."""
        target = _answer(record)
        if "state_message" not in record:
            raise Problem("missing_field", "the step has no 'state_message' (an old browser-use?)")
        expect("state_message", record["state_message"], str)
        content: str | list[dict[str, Any]] = record["state_message"]
        screenshot = _screenshot(record)
        if screenshot is not None:
            content = [{"type": "text", "text": content}, image_part(screenshot)]
        messages = [{"role": "user", "content": content}]
        if self.system is not None:
            messages.insert(0, {"role": "system", "content": self.system})
        op = action_name(target)
        made = {
            "task_id": unit.name,
            "step": line.number - 1,
            "family": self.families.of(record, op),
            "op": op,
            "messages": messages,
            "target": target,
            "line": {name: value for name, value in record.items() if name != "state_message"},
        }
        return Draft(made, made)


def _read(path: Path) -> bytes:
    with open(path, "rb") as handle:
        data = handle.read(MAX_LINE_BYTES + 1)
    if len(data) > MAX_LINE_BYTES:
        raise Problem("line_too_long", f"the file has more than {MAX_LINE_BYTES} bytes")
    return data.removeprefix(BOM)


def _history(data: bytes) -> list[Any]:
    steps = listed(parse(data), "history")
    for position, step in enumerate(steps):
        expect(f"history[{position}]", step, dict)
    return steps


def _look(unit: Unit) -> list[Any]:
    """The file's SHA-256, and the screenshots that it leads to."""
    try:
        data = _read(unit.path)
        steps = _history(data)
    except Problem:
        with open(unit.path, "rb") as handle:
            return [hashlib.file_digest(handle, "sha256").hexdigest(), []]
    names = []
    for step in steps:
        try:
            names.append(_screenshot(step))
        except Problem:
            continue
    shown = images_below((name for name in names if name is not None), unit.folder)
    return [hashlib.sha256(data).hexdigest(), shown]


def _screenshot(step: Mapping[str, Any]) -> str | None:
    state = step.get("state")
    path = state.get("screenshot_path") if isinstance(state, dict) else None
    if path is None:
        return None
    expect("state.screenshot_path", path, str)
    # The path is that of the machine that recorded it.
    return re.split(r"[/\\]", path)[-1] or None


def _answer(step: Mapping[str, Any]) -> str:
    """The model's output as JSON text; `Problem` for a step at which it gave none."""
    output = step.get("model_output")
    if output is None:
        raise Problem(
            "no_answer", "the step has no model_output: the model's answer was not usable"
        )
    expect("model_output", output, dict)
    if not isinstance(output.get("action"), list) or not output["action"]:
        raise Problem("no_answer", "the step's model_output has no action")
    return json.dumps(_without_nulls(output), ensure_ascii=False)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(child) for name, child in value.items() if child is not None}
    return [_without_nulls(child) for child in value] if isinstance(value, list) else value
