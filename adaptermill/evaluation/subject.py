"""The model that is evaluated: the frozen base, alone or with a finished adapter on it."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors import safe_open

from adaptermill.errors import UserError
from adaptermill.evaluation.nodes import NodeAdapters
from adaptermill.models.base import BaseRef, load_model
from adaptermill.provenance import key

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"


def subject_key(folder: Path) -> str:
    """The adapter's key as its `training.json` has it; the hash of its files for a foreign one."""
    if (per_node := NodeAdapters.of(folder)) is not None:
        folders = per_node.folders.values()
    else:
        folders = [folder]
    for each in folders:
        for name in (WEIGHTS, CONFIG):
            if not (each / name).is_file():
                raise UserError(f"{each} is no finished adapter: it has no {name}")
    try:
        return json.loads((folder / "training.json").read_text(encoding="utf-8"))["key"]
    except FileNotFoundError:
        return key(**{name: _sha256(folder / name) for name in (WEIGHTS, CONFIG)})


def _sha256(path: Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


class Epochs:
    """The adapter as it was after each epoch but the last, which is the adapter itself.

    Iterating gives the model with one of them switched on after the other, first epochs first;
    afterwards the finished adapter is on again. Empty for the base (`adapter` None) and for an
    adapter that kept none (`epochs/<n>`).
    """

    def __init__(self, model: torch.nn.Module, adapter: Path | None) -> None:
        self.model = model
        kept = [] if adapter is None else (adapter / "epochs").glob("[0-9]*")
        folders = sorted(kept, key=lambda folder: int(folder.name))
        self.names = [f"epoch_{folder.name}" for folder in folders[:-1]]
        for name, folder in zip(self.names, folders, strict=False):
            model.load_adapter(str(folder), adapter_name=name)
        if self.names:
            model.eval()

    def __iter__(self) -> Iterator[torch.nn.Module]:
        try:
            for name in self.names:
                self.model.set_adapter(name)
                yield self.model
        finally:
            if self.names:
                self.model.set_adapter("default")


def load_subject(
    ref: BaseRef, adapter: Path | None, device: str | torch.device, dtype: torch.dtype
) -> torch.nn.Module:
    """The model in evaluation mode; `UserError` when the adapter does not fit the base.

    The adapter is loaded as users load it, by `PeftModel.from_pretrained`, and not merged. Of one
    that is deployed per node, all nodes' adapters are loaded under their names.
    """
    base = load_model(ref, device, dtype)
    if adapter is None:
        return base
    per_node = NodeAdapters.of(adapter)
    folders = {"default": adapter} if per_node is None else per_node.folders
    model: torch.nn.Module = base
    for name, folder in folders.items():
        model = put_on(model, folder, name, ref)
    return model.eval()


def put_on(model: torch.nn.Module, folder: Path, name: str, ref: BaseRef) -> PeftModel:
    """The model (bare, or with adapters already) with the folder's adapter on it under `name`.

    `UserError` when the adapter does not fit the base.
    """
    try:
        with warnings.catch_warnings():
            # Said as an error below, with the tensor's name.
            warnings.filterwarnings("ignore", message="Found missing adapter keys")
            if isinstance(model, PeftModel):
                model.load_adapter(str(folder), adapter_name=name)
                adapted = model
            else:
                adapted = PeftModel.from_pretrained(model, str(folder), adapter_name=name)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"the adapter {folder} does not fit the base {ref.model}: {error}"
        ) from None
    with safe_open(folder / WEIGHTS, framework="pt") as saved:
        differ = set(saved.keys()) ^ set(get_peft_model_state_dict(adapted, adapter_name=name))
    if differ:
        raise UserError(
            f"the adapter {folder} does not fit the base {ref.model}: {len(differ)} tensors "
            f"are in one and not in the other, for instance {min(differ)}"
        )
    return adapted
