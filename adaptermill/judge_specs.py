"""What decides a judge's verdicts, as its spec has it: settings, template, actions and code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adaptermill.config import Config
from adaptermill.errors import UserError
from adaptermill.judge_settings import (
    BASE_URL_VARIABLE,
    MODEL_VARIABLE,
    ActionFormatJudge,
    LlmJudge,
)
from adaptermill.judges.template import Template
from adaptermill.provenance import key
from adaptermill.sources import Source

TEMPLATES = Path(__file__).parent / "judges" / "templates"


def used_judges(config: Config) -> dict[str, list[str]]:
    """Judge -> the adapters that have it, in the configuration's order."""
    used: dict[str, list[str]] = {}
    for adapter, recipe in config.recipes.items():
        if recipe.judge is not None:
            used.setdefault(recipe.judge, []).append(adapter)
    return used


def modules(config: Config, name: str) -> tuple[str, list[str]]:
    """The modules of adaptermill/judges that decide its verdicts, under a label.

    How requests reach an endpoint is not among them: it decides nothing, and verdicts are paid.
    """
    judge = config.judges[name]
    if isinstance(judge, LlmJudge) and judge.provider == "local":
        return "local_llm", ["llm.py", "local_model.py"]
    return judge.kind, [f"{judge.kind}.py"]


def judge_settings(
    config: Config, name: str, code: str, fitset_settings: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """The settings of the stage that judges.

    `configured` is the part of the judge's fingerprint that is known here; `code` the fingerprint
    of its modules. `adapters` holds the settings of the fit sets that ask for its verdicts.
    """
    judge = config.judges[name]
    own = judge.model_dump(exclude={"kind", "endpoint"})
    text, files = None, None
    # A model that runs here counts by its files, wherever they lie.
    apart: set[str] = set()
    if isinstance(judge, LlmJudge):
        text = template_text(name, judge)
        own = {**own, "template": None, "prompt": None}
        if judge.provider == "endpoint":
            own["model"] = judge.model or _from_environment(name)
        else:
            files = _files(str(judge.model))
            apart = {"model", "revision"}
    deciding = {setting: value for setting, value in own.items() if setting not in apart}
    settings = {
        "judge": name,
        "kind": judge.kind,
        "settings": own,
        "template_text": text,
        "kind_code": code,
        "configured": key(kind=judge.kind, settings=deciding, template=text, code=code),
        "actions": {},
        "adapters": {
            adapter: fitset_settings(adapter) for adapter in used_judges(config).get(name, [])
        },
    }
    if files is not None:
        settings["files"] = files
    if isinstance(judge, ActionFormatJudge) and judge.actions is None:
        settings["actions"] = {source.name: _action_names(source) for source in config.sources}
    return settings


def endpoint_settings(config: Config, name: str) -> dict[str, Any] | None:
    """How requests travel; enters no spec."""
    judge = config.judges[name]
    if not isinstance(judge, LlmJudge) or judge.provider != "endpoint":
        return None
    return {**judge.endpoint.model_dump(), "base_url_variable": BASE_URL_VARIABLE}


def template_text(name: str, judge: LlmJudge) -> str:
    """The judge's template; `UserError` when it cannot be read, or used."""
    if judge.prompt is not None:
        text, where = judge.prompt, f"judges.{name}.prompt"
    else:
        shipped = sorted(path.stem for path in TEMPLATES.glob("*.jinja"))
        named = str(judge.template)
        path = TEMPLATES / f"{named}.jinja" if named in shipped else Path(named)
        where = f"judges.{name}.template: {path}"
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"judges.{name}.template: {named} is none of {', '.join(shipped)}, and cannot be "
                f"read as a file ({error})"
            ) from None
    try:
        Template(text, judge.system)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    return text


def _from_environment(name: str) -> str:
    model = os.environ.get(MODEL_VARIABLE, "").strip()
    if not model:
        raise UserError(
            f"judges.{name}: which model answers? Set judges.{name}.model, or the environment "
            f"variable {MODEL_VARIABLE}"
        )
    return model


def _files(model: str) -> list[list[Any]] | None:
    """Names, sizes and times of a folder's files, so that an edit inside it is noticed."""
    if not Path(model).is_dir():
        return None
    return [
        [entry.name, entry.stat().st_size, entry.stat().st_mtime_ns]
        for entry in sorted(os.scandir(model), key=lambda entry: entry.name)
        if entry.is_file()
    ]


def _action_names(source: Source) -> list[str] | None:
    """The names of actions in the file that a source's `action_schema` names, if it names one.

    The file holds a list of names, or the JSON schema of the answers (an object whose `action` is
    an array of objects with one property each, the action's name).
    """
    if source.action_schema is None:
        return None
    where = f"sources.{source.name}.action_schema: {source.action_schema}"
    try:
        found = json.loads(Path(source.action_schema).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{where} cannot be read as JSON ({error})") from None
    names = found if isinstance(found, list) else _named_in_schema(found)
    if not names or not all(isinstance(name, str) for name in names):
        raise UserError(
            f"{where} names no action: it should hold a list of names, or the JSON schema of the "
            "answers with properties.action.items"
        )
    return sorted(set(names))


def _named_in_schema(schema: Any) -> list[str]:
    try:
        items = schema["properties"]["action"]["items"]
        choices = items.get("anyOf") or items.get("oneOf") or [items]
        return [name for choice in choices for name in choice["properties"]]
    except (KeyError, TypeError, AttributeError):
        return []
