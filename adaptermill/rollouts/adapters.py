"""Adapters on the base's seats: what they are, and whether they were made for this base."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from adaptermill.errors import UserError
from adaptermill.evaluation.nodes import NodeAdapters
from adaptermill.evaluation.subject import CONFIG, put_on, subject_key
from adaptermill.models.base import BaseRef


def check(folder: Path, ref: BaseRef) -> str:
    """The adapter's key; `UserError` when it is none, or was made for another base.

    `training.json` has the base's identity; of an adapter without one, `adapter_config.json` names
    its base, which must be the name of this one.
    """
    if (per_node := NodeAdapters.of(folder)) is not None:
        seats = ", ".join(str(each) for each in per_node.folders.values())
        raise UserError(
            f"the adapter {folder} is deployed per node: give each role its own ({seats})"
        )
    key = subject_key(folder)
    config = _json(folder / CONFIG)
    # A node's adapter lies in `nodes/` of the adapter that it is a part of.
    whole = folder.parent.parent if folder.parent.name == "nodes" else folder
    if (whole / "training.json").is_file():
        made_for = (_json(whole / "training.json").get("hashes") or {}).get("base")
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


def on_seats(
    model: torch.nn.Module, folders: Sequence[Path], ref: BaseRef
) -> tuple[torch.nn.Module, dict[str, str]]:
    """The model with the adapters on it, and folder -> the name that PEFT knows it by."""
    names = {str(folder): f"adapter{number}" for number, folder in enumerate(folders)}
    for folder in folders:
        model = put_on(model, folder, names[str(folder)], ref)
    return model.eval(), names


def _json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is no JSON: {error}; make the adapter again") from None
