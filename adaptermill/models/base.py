"""The base model: what it is (identity), and how it is loaded.

A `BaseRef` says which base is meant, where it lies and what it is made of; it is written once
(`base.json`) and read by every stage. Two bases with one identity hold the same files.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    ProcessorMixin,
)
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
from transformers.utils import logging

from adaptermill.atomic import write_json
from adaptermill.errors import UserError
from adaptermill.hashing import FileStat, HashCache
from adaptermill.provenance import key

logging.disable_progress_bar()
WEIGHT_SUFFIXES = (".safetensors", ".bin")
# Files that neither the model nor its tokenizer is made of.
_NOT_PART = {"README.md", "LICENSE", "LICENSE.txt", "generation_config.json"}


@dataclass(frozen=True)
class BaseRef:
    """A resolved base.

    `model` is the name as configured, `path` what `from_pretrained` takes; `identity` covers all
    files, `processor_hash` those that decide tokens and pixels.
    """

    model: str
    revision: str | None
    path: str
    identity: str
    processor_hash: str
    multimodal: bool
    architecture: str

    @property
    def name(self) -> str:
        """The base's name in products: as configured, but no place on this machine's disk."""
        return Path(self.model).name if os.path.isabs(self.model) else self.model

    @classmethod
    def read(cls, path: str | os.PathLike) -> BaseRef:
        return cls(**json.loads(Path(path).read_text(encoding="utf-8")))

    def write(self, path: str | os.PathLike) -> None:
        write_json(path, asdict(self))


@dataclass(frozen=True)
class Processor:
    """What turns a row into tokens and pixels; `multimodal` is None for a text-only base."""

    tokenizer: PreTrainedTokenizerBase
    multimodal: ProcessorMixin | None


def resolve(
    model: str, revision: str | None, folder: str | None, hash_cache: str | os.PathLike
) -> BaseRef:
    """Finds out which base `model` is now.

    `folder` is where the example base lies. A hub id is resolved to a commit; on a machine without
    network a copy in the local cache serves. `UserError` when there is no usable model.
    """
    path = folder or model
    if os.path.isdir(path):
        return _resolve_folder(model, path, hash_cache)
    if os.path.exists(path) or path.startswith((".", "/")) or path.count("/") != 1:
        raise UserError(
            f"base.model: {path} is no folder with a model and no hub id (<owner>/<name>); give "
            "one of these, or `example`"
        )
    return _resolve_hub(model, revision)


def _resolve_folder(model: str, path: str, hash_cache: str | os.PathLike) -> BaseRef:
    names = sorted(entry.name for entry in os.scandir(path) if entry.is_file())
    has_weights = any(name.endswith(WEIGHT_SUFFIXES) for name in names)
    if not has_weights and any(name.endswith(".gguf") for name in names):
        raise UserError(
            f"base.model: {path} holds its weights as GGUF only; make a base of them with\n"
            f"  python scripts/base_from_gguf.py --gguf {path}/<file>.gguf --output <folder>\n"
            "and name that folder"
        )
    if "config.json" not in names:
        raise UserError(
            f"base.model: {path} is not a model: it has no config.json. A base is a folder as "
            "`save_pretrained` writes it (config.json, *.safetensors, tokenizer files)"
        )
    if not has_weights:
        raise UserError(f"base.model: {path} has a config.json but no weights (*.safetensors)")
    if not any(name.startswith("tokenizer") for name in names):
        raise UserError(f"base.model: {path} has no tokenizer files (tokenizer.json, …)")
    cache = HashCache(Path(hash_cache))
    hashes = {
        name: cache.sha256(FileStat.of(os.path.join(path, name)))
        for name in names
        if name not in _NOT_PART and not name.startswith(".")
    }
    cache.save()
    deciding = {name: found for name, found in hashes.items() if not name.endswith(WEIGHT_SUFFIXES)}
    multimodal, architecture = _architecture(path, None)
    return BaseRef(
        model=model,
        revision=None,
        path=path,
        identity=key(files=hashes),
        processor_hash=key(files=deciding),
        multimodal=multimodal,
        architecture=architecture,
    )


def _resolve_hub(model: str, revision: str | None) -> BaseRef:
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        commit = HfApi().model_info(model, revision=revision).sha
    except HFValidationError as error:
        raise UserError(f"base.model: {model} is no folder here and no hub id: {error}") from None
    except (RepositoryNotFoundError, RevisionNotFoundError, GatedRepoError) as error:
        raise UserError(
            f"base.model: the hub does not give {model} at {revision or 'its newest commit'}: "
            f"{error}"
        ) from None
    except Exception as unreachable:  # no network shows itself in many ways
        try:
            cached = hf_hub_download(model, "config.json", revision=revision, local_files_only=True)
        except LocalEntryNotFoundError:
            raise UserError(
                f"base.model: the hub cannot be reached ({unreachable}) and {model} is not in the "
                "local cache; download it once on a machine with network "
                f"(`hf download {model}`), or give a local folder"
            ) from None
        commit = Path(cached).parent.name
    assert commit is not None
    multimodal, architecture = _architecture(model, commit)
    return BaseRef(
        model=model,
        revision=commit,
        path=model,
        identity=key(model=model, commit=commit),
        processor_hash=key(model=model, commit=commit),
        multimodal=multimodal,
        architecture=architecture,
    )


def _architecture(path: str, revision: str | None) -> tuple[bool, str]:
    try:
        config = AutoConfig.from_pretrained(path, revision=revision)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"base.model: the config.json of {path} does not load: {error}") from None
    multimodal = type(config) in AutoModelForImageTextToText._model_mapping
    architectures = config.architectures or [type(config).__name__]
    return multimodal, architectures[0]


def load_model(
    ref: BaseRef, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32
) -> PreTrainedModel:
    """The frozen base in evaluation mode, with SDPA attention."""
    kind = AutoModelForImageTextToText if ref.multimodal else AutoModelForCausalLM
    try:
        model, found = kind.from_pretrained(
            ref.path,
            revision=ref.revision,
            dtype=dtype,
            attn_implementation="sdpa",
            output_loading_info=True,
        )
    except (OSError, SafetensorError) as error:
        raise UserError(f"the base {ref.model} cannot be loaded from {ref.path}: {error}") from None
    if found["missing_keys"]:  # transformers would draw them at random
        raise UserError(
            f"the base {ref.model} is not whole: {ref.path} lacks {len(found['missing_keys'])} "
            f"weights, for instance {min(found['missing_keys'])}"
        )
    model.requires_grad_(False)
    return model.to(device).eval()


def load_processor(ref: BaseRef) -> Processor:
    """The base's tokenizer and image processor.

    Images always go through the PIL image processor, so that tokens and pixels are the same with
    and without torchvision; video processors (which need torchvision) are left out.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(ref.path, revision=ref.revision)
        if not ref.multimodal:
            return Processor(_checked(tokenizer, ref), None)
        images = AutoImageProcessor.from_pretrained(ref.path, revision=ref.revision, backend="pil")
        config = AutoConfig.from_pretrained(ref.path, revision=ref.revision)
        multimodal = _without_video(config, ref, images, tokenizer)
    except OSError as error:
        raise UserError(
            f"the base {ref.model} has no usable tokenizer or image processor ({ref.path}): {error}"
        ) from None
    return Processor(_checked(tokenizer, ref), multimodal)


def _checked(tokenizer: PreTrainedTokenizerBase, ref: BaseRef) -> PreTrainedTokenizerBase:
    if not tokenizer.is_fast:
        raise UserError(f"the base {ref.model} has no fast tokenizer (tokenizer.json)")
    return tokenizer


def _without_video(
    config: Any, ref: BaseRef, images: Any, tokenizer: PreTrainedTokenizerBase
) -> ProcessorMixin:
    family = PROCESSOR_MAPPING.get(type(config), None)
    if family is None or "video_processor" not in family.get_attributes():
        processor = AutoProcessor.from_pretrained(ref.path, revision=ref.revision)
        processor.image_processor = images
        return processor

    class WithoutVideo(family):  # type: ignore[misc, valid-type]
        @classmethod
        def get_attributes(cls) -> list[str]:
            return [name for name in family.get_attributes() if name != "video_processor"]

    settings, _ = WithoutVideo.get_processor_dict(ref.path, revision=ref.revision)
    settings["chat_template"] = settings.get("chat_template") or tokenizer.chat_template
    return WithoutVideo.from_args_and_dict(
        [], settings, image_processor=images, tokenizer=tokenizer, video_processor=None
    )
