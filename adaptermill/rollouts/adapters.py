"""Adapters on the base's seats: what they are, and whether they were made for this base."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors import safe_open

from adaptermill.errors import UserError
from adaptermill.evaluation.subject import CONFIG, WEIGHTS, subject_key
from adaptermill.models.base import BaseRef


def check(folder: Path, ref: BaseRef) -> str:
    """The adapter's key; `UserError` when it is none, or was made for another base.

    `training.json` has the base's identity; of an adapter without one, `adapter_config.json` names
    its base, which must be the name of this one.
    """
    key = subject_key(folder)
    config = _json(folder / CONFIG)
    record = folder / "training.json"
    if record.is_file():
        made_for = (_json(record).get("hashes") or {}).get("base")
        if made_for is not None and made_for != ref.identity:
            raise UserError(
                f"the adapter {folder} was trained on another base (identity {made_for[:12]}…, "
                f"{config.get('base_model_name_or_path')}) than {ref.name} "
                f"(identity {ref.identity[:12]}…); give the base that it was made for"
            )
        if made_for is not None:
            return key
    named = config.get("base_model_name_or_path")
    if named and Path(str(named)).name != Path(ref.name).name:
        raise UserError(
            f"the adapter {folder} was made for the base {named} ({CONFIG}), not for {ref.name}; "
            "give the base that it was made for"
        )
    return key


def put_on(
    model: torch.nn.Module, folders: Sequence[Path], ref: BaseRef
) -> tuple[torch.nn.Module, dict[Path, str]]:
    """The model with the adapters on it, and folder -> the name that PEFT knows it by."""
    names: dict[Path, str] = {}
    for number, folder in enumerate(folders):
        name = names[folder] = f"seat{number}"
        try:
            if isinstance(model, PeftModel):
                model.load_adapter(str(folder), adapter_name=name)
            else:
                model = PeftModel.from_pretrained(model, str(folder), adapter_name=name)
        except (RuntimeError, ValueError) as error:
            raise UserError(
                f"the adapter {folder} does not fit the base {ref.model}: {error}"
            ) from None
        with safe_open(folder / WEIGHTS, framework="pt") as saved:
            differ = set(saved.keys()) ^ set(get_peft_model_state_dict(model, adapter_name=name))
        if differ:
            raise UserError(
                f"the adapter {folder} does not fit the base {ref.model}: {len(differ)} tensors "
                f"are in one and not in the other, for instance {min(differ)}"
            )
    return model.eval(), names


def _json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is no JSON: {error}; make the adapter again") from None
