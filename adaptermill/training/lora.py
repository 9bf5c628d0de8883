"""The LoRA adapter: where it sits, how it starts, and how it is saved.

An adapter sits on projections of the language model only, never on the vision tower or the
linear-attention projections. The names written to `adapter_config.json` are such that PEFT,
applying them to the base again, hits exactly the trained modules.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file, save_file
from torch import nn

from adaptermill.atomic import write_text
from adaptermill.errors import UserError
from adaptermill.models.base import BaseRef
from adaptermill.training.checkpoint import Refusal
from adaptermill.training.dropout import DropoutKeys, KeyedDropout
from adaptermill.training.recipe import Recipe

TARGETS = {
    "attn_mlp": ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    "attn_qv": ("q_proj", "v_proj"),
    "attn_all": ("q_proj", "k_proj", "v_proj", "o_proj"),
}
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
REFERENCE = "reference"
_LINEAR_ATTENTION = "linear_attn"


def language_modules(model: nn.Module, targets: str) -> list[str]:
    """Full names of the language model's projections that `targets` means, in model order."""
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    prefix = next(name for name, module in model.named_modules() if module is decoder)
    leaves = TARGETS[targets]
    names = []
    for name, module in decoder.named_modules(prefix=prefix):
        parts = name.split(".")
        if isinstance(module, nn.Linear) and parts[-1] in leaves and _LINEAR_ATTENTION not in parts:
            names.append(name)
    if not names:
        found = sorted(
            {n.rpartition(".")[2] for n, m in decoder.named_modules() if isinstance(m, nn.Linear)}
        )
        raise Refusal(
            f"lora_targets: {targets} means {', '.join(leaves)}, and the base's language model has "
            f"none of them (it has {', '.join(found)})"
        )
    return names


def server_safe_names(model: nn.Module, trained: Sequence[str]) -> list[str]:
    """The shortest names, sorted, by which PEFT finds exactly the `trained` modules.

    PEFT matches a name against the end of a module's full name. Leaf names are what servers expect;
    where one would also match outside, longer endings are taken.
    """
    wanted = set(trained)
    every = [name for name, _ in model.named_modules()]
    chosen: set[str] = set()
    for name in trained:
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            ending = ".".join(parts[-length:])
            if all(n in wanted for n in every if n == ending or n.endswith(f".{ending}")):
                chosen.add(ending)
                break
    return sorted(chosen)


def attach(
    model: nn.Module,
    recipe: Recipe,
    ref: BaseRef,
    keys: DropoutKeys,
    names: list[str] | None = None,
) -> PeftModel:
    """Puts a new adapter on the frozen base: A drawn from the seed, B zero, keyed dropout.

    `names` are the modules that get one, in model order; None takes all that the recipe means.
    """
    names = language_modules(model, recipe.lora_targets) if names is None else names
    config = LoraConfig(
        r=recipe.rank,
        # PEFT and servers take a whole number; other values stay as they are.
        lora_alpha=int(recipe.alpha) if float(recipe.alpha).is_integer() else recipe.alpha,
        lora_dropout=recipe.dropout,
        target_modules=server_safe_names(model, names),
        bias="none",
        task_type="CAUSAL_LM",
        revision=ref.revision,
    )
    adapted = get_peft_model(model, config)
    adapted.peft_config["default"].base_model_name_or_path = ref.name
    found = [name for name, _ in lora_layers(adapted)]
    assert found == names, "PEFT put the adapter on other modules than those chosen"
    for name, layer in lora_layers(adapted):
        draw_start(layer.lora_A["default"].weight, recipe.seed, name)
        nn.init.zeros_(layer.lora_B["default"].weight)
        if recipe.dropout > 0:
            layer.lora_dropout["default"] = KeyedDropout(recipe.dropout, name, keys)
    return adapted


def draw_start(weight: torch.Tensor, seed: int, name: str) -> None:
    """Fills A [r, d] uniformly within +-1/sqrt(d), as PEFT does, from (seed, module name)."""
    number = int.from_bytes(hashlib.sha256(f"{seed}\0{name}".encode()).digest()[:8], "little")
    generator = torch.Generator().manual_seed(number % (1 << 63))
    bound = 1.0 / math.sqrt(weight.shape[1])
    drawn = torch.empty(weight.shape).uniform_(-bound, bound, generator=generator)
    with torch.no_grad():
        weight.copy_(drawn)


def lora_layers(model: nn.Module) -> list[tuple[str, LoraLayer]]:
    """The adapter's layers under the names that their modules have in the base."""
    inner = model.get_base_model() if isinstance(model, PeftModel) else model
    return [
        (name, module) for name, module in inner.named_modules() if isinstance(module, LoraLayer)
    ]


def parameters(model: nn.Module) -> list[nn.Parameter]:
    """The trained tensors: A and B of every layer, in model order."""
    found = []
    for _, layer in lora_layers(model):
        found += [layer.lora_A["default"].weight, layer.lora_B["default"].weight]
    return found


def load_start(model: PeftModel, folder: Path, recipe: Recipe) -> None:
    """Starts from a finished adapter, and keeps a frozen copy of it as the reference.

    `Refusal` names what does not match: rank, alpha, targets, or a tensor that is not there.
    """
    config_path, weights_path = folder / CONFIG, folder / WEIGHTS
    if not config_path.is_file() or not weights_path.is_file():
        raise UserError(f"init_from: {folder} is no saved adapter ({CONFIG} and {WEIGHTS})")
    saved = json.loads(config_path.read_text(encoding="utf-8"))
    own = model.peft_config["default"]
    targets = saved["target_modules"]  # adapters made elsewhere may hold a pattern instead of names
    differs = [
        f"{setting} is {theirs} there and {ours} here"
        for setting, theirs, ours in (
            ("rank", saved["r"], own.r),
            ("alpha", saved["lora_alpha"], own.lora_alpha),
            (
                "targets",
                targets if isinstance(targets, str) else sorted(targets),
                sorted(own.target_modules),
            ),
            # What else decides the scale of B A.
            ("alpha_pattern", saved.get("alpha_pattern") or {}, own.alpha_pattern),
            ("use_rslora", saved.get("use_rslora") or False, own.use_rslora),
        )
        if theirs != ours
    ]
    if differs:
        raise Refusal(
            f"init_from: the adapter in {folder} does not match: {'; '.join(differs)}. A branched "
            "adapter keeps the rank, alpha and lora_targets of the one it starts from"
        )
    tensors = load_file(weights_path)
    shapes, wanted = ({n: t.shape for n, t in held.items()} for held in (tensors, state(model)))
    if shapes != wanted:
        names = {name for name, _ in shapes.items() ^ wanted.items()}
        raise Refusal(f"init_from: tensors of {folder} do not match, for instance {min(names)}")
    model.add_adapter(REFERENCE, LoraConfig(**{**own.to_dict(), "lora_dropout": 0.0}))
    for name, layer in lora_layers(model):
        for part in ("lora_A", "lora_B"):
            tensor = tensors[f"base_model.model.{name}.{part}.weight"]
            for adapter in ("default", REFERENCE):
                with torch.no_grad():
                    getattr(layer, part)[adapter].weight.copy_(tensor)
    use_trained(model)


def content(folder: Path) -> str:
    """The SHA-256 of a saved adapter's weights."""
    try:
        return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    except FileNotFoundError:
        raise UserError(f"init_from: {folder} is no saved adapter; it has no {WEIGHTS}") from None


def state(model: PeftModel) -> dict[str, torch.Tensor]:
    """The trained adapter's tensors under the names that PEFT saves."""
    return get_peft_model_state_dict(model, save_embedding_layers=False)


def use_reference(model: PeftModel) -> None:
    """Runs the frozen copy instead of the trained adapter, until `use_trained`."""
    model.base_model.set_adapter(REFERENCE, inference_mode=True)


def use_trained(model: PeftModel) -> None:
    model.base_model.set_adapter("default")


def relative_change(model: PeftModel) -> float:
    """||change of W|| / ||W|| over all adapted weights, the start being the base or `init_from`."""
    change = total = 0.0
    for _, layer in lora_layers(model):
        a, b = (layer.lora_A["default"].weight, layer.lora_B["default"].weight)
        if REFERENCE in layer.lora_A:
            a = torch.cat([a, layer.lora_A[REFERENCE].weight])
            b = torch.cat([b, -layer.lora_B[REFERENCE].weight], dim=1)
        a, b = a.detach().double(), b.detach().double()
        # ||BA||^2 from two small Gram matrices instead of the full product.
        change += float(((b.T @ b) * (a @ a.T)).sum()) * layer.scaling["default"] ** 2
        total += float(layer.get_base_layer().weight.detach().double().square().sum())
    return math.sqrt(max(change, 0.0) / total)


def save(model: PeftModel, folder: Path) -> None:
    """Writes the trained adapter in PEFT's own format, targets sorted."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = state(model)
    kept = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
    save_file(kept, folder / WEIGHTS, metadata={"format": "pt"})
    config = {**model.peft_config["default"].to_dict(), "inference_mode": True}
    config = {k: sorted(v) if isinstance(v, (set, frozenset)) else v for k, v in config.items()}
    config["target_modules"] = sorted(config["target_modules"])
    write_text(folder / CONFIG, json.dumps(config, indent=2, sort_keys=True) + "\n")
