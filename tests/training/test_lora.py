"""The adapter: where it sits, how it starts, what is saved, and what it is compared with."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import (
    CLIPVisionConfig,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3TextConfig,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    SiglipVisionConfig,
)

from adaptermill.errors import UserError
from adaptermill.models.base import load_model
from adaptermill.models.scoring import target_logits
from adaptermill.training import lora
from adaptermill.training.checkpoint import Refusal
from adaptermill.training.dropout import DropoutKeys
from adaptermill.training.loop import Shortcuts
from tests.training.world import World, difference, lines, recipe, shake

# ---- where it sits -------------------------------------------------------------------------------


def test_only_projections_of_the_language_model_are_trained(world: World):
    model, _ = world.adapted(recipe())
    names = [name for name, _ in lora.lora_layers(model)]
    layer = "model.language_model.layers"
    mlp = ("gate_proj", "up_proj", "down_proj")
    attention = ("q_proj", "k_proj", "v_proj", "o_proj")
    wanted = {f"{layer}.{number}.mlp.{leaf}" for number in (0, 1) for leaf in mlp}
    wanted |= {f"{layer}.1.self_attn.{leaf}" for leaf in attention}
    assert set(names) == wanted
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert {name.partition(".lora_")[0].removeprefix("base_model.model.") for name in trained} == (
        wanted
    )
    assert len(trained) == 2 * len(wanted) == len(lora.parameters(model))


def test_linear_attention_is_left_alone_whatever_its_projections_are_called(world: World):
    base = load_model(world.ref)
    base.get_decoder().layers[0].linear_attn.q_proj = torch.nn.Linear(32, 32)
    chosen = lora.language_modules(base, "attn_qv")
    layer = "model.language_model.layers.1.self_attn"
    assert chosen == [f"{layer}.q_proj", f"{layer}.v_proj"]
    assert "q_proj" not in lora.server_safe_names(base, chosen)


def test_targets_name_groups_of_projections(world: World):
    leaves = {
        targets: sorted({n.rpartition(".")[2] for n in lora.language_modules(base, targets)})
        for base in [load_model(world.ref)]
        for targets in lora.TARGETS
    }
    assert leaves["attn_qv"] == ["q_proj", "v_proj"]
    assert leaves["attn_all"] == ["k_proj", "o_proj", "q_proj", "v_proj"]
    assert leaves["attn_mlp"] == sorted({*leaves["attn_all"], "down_proj", "gate_proj", "up_proj"})


LAYERS = 9  # so many names that PEFT makes a shorter list of its own
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "vocab_size": 100,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}


def gemma() -> torch.nn.Module:
    return Gemma3ForConditionalGeneration(
        Gemma3Config(
            text_config=Gemma3TextConfig(**TEXT),
            vision_config=SiglipVisionConfig(**VISION, vision_use_head=False),
            mm_tokens_per_image=4,
        )
    )


def llava() -> torch.nn.Module:
    return LlavaForConditionalGeneration(
        LlavaConfig(text_config=LlamaConfig(**TEXT), vision_config=CLIPVisionConfig(**VISION))
    )


def idefics() -> torch.nn.Module:
    text = {**LlamaConfig(**TEXT).to_dict(), "pad_token_id": 0}
    return Idefics3ForConditionalGeneration(
        Idefics3Config(text_config=text, vision_config=VISION, scale_factor=2)
    )


@pytest.mark.parametrize("build", [gemma, llava, idefics])
@pytest.mark.parametrize("targets", ["attn_mlp", "attn_qv"])
def test_names_hit_the_language_model_alone_where_the_vision_tower_has_the_same(build, targets):
    with torch.device("meta"):
        model = build()
        chosen = lora.language_modules(model, targets)
        assert len(chosen) == LAYERS * len(lora.TARGETS[targets])
        assert not any("vision" in name for name in chosen)
        twins = {n.rpartition(".")[2] for n, _ in model.named_modules() if "vision" in n}
        assert {"q_proj", "v_proj"} <= twins
        names = lora.server_safe_names(model, chosen)
        assert names == sorted(names)
        # Leaf names stay where they are unambiguous.
        assert ("gate_proj" in names) == (targets == "attn_mlp")
        assert "q_proj" not in names
        adapted = get_peft_model(model, LoraConfig(r=2, target_modules=names))
        assert [name for name, _ in lora.lora_layers(adapted)] == chosen
        kept = sorted(adapted.peft_config["default"].target_modules)  # what is saved
        again = get_peft_model(build(), LoraConfig(r=2, target_modules=kept))
        assert [name for name, _ in lora.lora_layers(again)] == chosen


def test_leaf_names_are_enough_where_nothing_else_has_them(world: World):
    base = load_model(world.ref)
    chosen = lora.language_modules(base, "attn_mlp")
    assert lora.server_safe_names(base, chosen) == sorted(lora.TARGETS["attn_mlp"])


def test_a_base_without_such_projections_is_refused():
    with pytest.raises(Refusal, match=r"none of them \(it has 0, 1\)"):
        lora.language_modules(
            torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)), "attn_qv"
        )


# ---- how it starts -------------------------------------------------------------------------------


def test_the_start_depends_on_seed_and_name_alone(world: World):
    torch.manual_seed(1)
    first, _ = world.adapted(recipe())
    torch.manual_seed(2)
    again, _ = world.adapted(recipe(dropout=0.05))
    other, _ = world.adapted(recipe(seed=1))
    fewer, _ = world.adapted(recipe(lora_targets="attn_qv"))
    one = lora.state(first)
    assert difference(one, lora.state(again)) == 0
    assert all(not tensor.any() for name, tensor in one.items() if "lora_B" in name)
    starts = {name: tensor for name, tensor in one.items() if "lora_A" in name}
    assert all(not tensor.equal(lora.state(other)[name]) for name, tensor in starts.items())
    assert len({tensor.flatten()[0].item() for tensor in starts.values()}) == len(starts)
    for name, tensor in lora.state(fewer).items():
        assert tensor.equal(one[name])
    for tensor in starts.values():
        assert tensor.abs().max() <= tensor.shape[1] ** -0.5


# ---- what is saved -------------------------------------------------------------------------------


def logits_of(world: World, model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return target_logits(model, world.examples.encoded("main/e0/1"), "cpu")


def test_a_saved_adapter_is_loaded_by_peft_and_answers_the_same(world: World, tmp_path: Path):
    model, _ = world.adapted(recipe(dropout=0.05))
    shake(model)
    lora.save(model, tmp_path / "a")
    loaded = PeftModel.from_pretrained(load_model(world.ref), tmp_path / "a").eval()
    torch.testing.assert_close(logits_of(world, loaded), logits_of(world, model), rtol=0, atol=1e-6)
    assert (logits_of(world, model) - logits_of(world, load_model(world.ref))).abs().max() > 1e-2
    hit = [name for name, _ in lora.lora_layers(loaded)]
    assert hit == [name for name, _ in lora.lora_layers(model)]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    tensors = load_file(tmp_path / "a" / lora.WEIGHTS)
    assert all(".language_model." in name for name in tensors)
    # Saved again, it is the same adapter.
    lora.save(loaded, tmp_path / "b")
    assert difference(tensors, load_file(tmp_path / "b" / lora.WEIGHTS)) == 0
    one, other = (json.loads((tmp_path / n / lora.CONFIG).read_text()) for n in "ab")
    for changed in ("base_model_name_or_path",):  # PEFT notes where it found the base
        one.pop(changed), other.pop(changed)
    assert one == other


def test_the_configuration_names_the_base_and_no_place_on_this_machine(
    world: World, tmp_path: Path
):
    model, _ = world.adapted(recipe())
    lora.save(model, tmp_path)
    text = (tmp_path / lora.CONFIG).read_text()
    saved = json.loads(text)
    assert saved["base_model_name_or_path"] == "tiny"
    assert (saved["r"], saved["lora_alpha"], saved["bias"]) == (4, 8, "none")
    assert saved["target_modules"] == sorted(lora.TARGETS["attn_mlp"])
    assert world.ref.path not in text
    assert str(Path.home()) not in text


def test_the_same_adapter_is_saved_as_the_same_bytes(world: World, tmp_path: Path):
    for name in "ab":
        model, _ = world.adapted(recipe())
        lora.save(model, tmp_path / name)
    for file in (lora.WEIGHTS, lora.CONFIG):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


# ---- init_from -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parent(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished adapter to start from."""
    folder = tmp_path_factory.mktemp("parent")
    model, _ = world.adapted(recipe())
    shake(model)
    lora.save(model, folder)
    return folder


def test_a_branched_adapter_starts_as_its_parent_with_no_penalty(
    world: World, tmp_path: Path, parent: Path
):
    whole = Shortcuts(share_prefix=False)  # then both copies take the same path
    plan = lines(4, anchors=1)
    trainer = world.trainer(tmp_path, plan, start=parent, shortcuts=whole, batch_rows=4)
    assert difference(lora.state(trainer.model), load_file(parent / lora.WEIGHTS)) == 0
    sums = trainer.accumulate(trainer.batches[0])
    assert sums[2].item() == 0.0
    assert sums[3].item() == 4
    # The reference is the parent, not the base.
    encoded = world.examples.encoded("main/e0/1")
    loaded = PeftModel.from_pretrained(load_model(world.ref), parent).eval()
    logps = logits_of(world, loaded).log_softmax(-1)
    wanted = logps.gather(1, encoded.targets[:, None]).squeeze(1)
    torch.testing.assert_close(trainer.reference_logps(encoded), wanted, rtol=0, atol=1e-6)


def test_the_reference_copy_stays_as_it_was(world: World, tmp_path: Path, parent: Path):
    trainer = world.trainer(tmp_path, lines(12), start=parent, dropout=0.05)

    def reference() -> list[torch.Tensor]:
        return [
            getattr(layer, part)[lora.REFERENCE].weight.detach().clone()
            for _, layer in lora.lora_layers(trainer.model)
            for part in ("lora_A", "lora_B")
        ]

    before = reference()
    trainer.run()
    assert all(one.equal(other) for one, other in zip(before, reference(), strict=True))
    start = load_file(parent / lora.WEIGHTS)
    assert all(not tensor.equal(start[n]) for n, tensor in lora.state(trainer.model).items())
    lora.save(trainer.model, tmp_path / "saved")
    assert load_file(tmp_path / "saved" / lora.WEIGHTS).keys() == start.keys()
    assert not any(
        p.requires_grad for n, p in trainer.model.named_parameters() if lora.REFERENCE in n
    )


def copied(parent: Path, folder: Path, **changes: object) -> Path:
    shutil.copytree(parent, folder)
    config = json.loads((folder / lora.CONFIG).read_text()) | changes
    (folder / lora.CONFIG).write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"r": 8}, "rank is 8 there and 4 here"),
        ({"lora_alpha": 16}, "alpha is 16 there and 8 here"),
        ({"target_modules": ["v_proj", "q_proj"]}, r"targets is \['q_proj', 'v_proj'\] there"),
        ({"r": 8, "lora_alpha": 16}, "rank is 8 there and 4 here; alpha is 16"),
        ({"target_modules": ".*_proj"}, r"targets is \.\*_proj there"),
        ({"alpha_pattern": {"q_proj": 2}}, "alpha_pattern is {'q_proj': 2} there and {} here"),
        ({"use_rslora": True}, "use_rslora is True there and False here"),
    ],
)
def test_a_parent_of_another_shape_is_refused_by_name(world, tmp_path, parent, changes, said):
    with pytest.raises(Refusal, match=said):
        world.adapted(recipe(), copied(parent, tmp_path / "other", **changes))


def test_every_tensor_of_the_parent_must_be_there(world: World, tmp_path: Path, parent: Path):
    folder = copied(parent, tmp_path / "other")
    tensors = load_file(folder / lora.WEIGHTS)
    lost = "base_model.model.model.language_model.layers.0.mlp.up_proj.lora_A.weight"
    save_file({n: t for n, t in tensors.items() if n != lost}, folder / lora.WEIGHTS)
    with pytest.raises(Refusal, match=lost):
        world.adapted(recipe(), folder)
    save_file({**tensors, lost: tensors[lost][:, :-1].contiguous()}, folder / lora.WEIGHTS)
    with pytest.raises(Refusal, match=lost):
        world.adapted(recipe(), folder)
    with pytest.raises(UserError, match="no saved adapter"):
        world.adapted(recipe(), tmp_path)


# ---- what it changes -----------------------------------------------------------------------------


@pytest.mark.parametrize("branched", [False, True])
def test_the_relative_change_is_that_of_the_full_matrices(world, parent, branched):
    model, _ = world.adapted(recipe(), parent if branched else None)
    assert lora.relative_change(model) == pytest.approx(0.0, abs=1e-9)
    shake(model, seed=5)
    start = load_file(parent / lora.WEIGHTS)
    change = total = 0.0
    for name, layer in lora.lora_layers(model):
        moved = 2 * layer.lora_B["default"].weight @ layer.lora_A["default"].weight
        if branched:
            a, b = (start[f"base_model.model.{name}.lora_{part}.weight"] for part in "AB")
            moved = moved - 2 * b @ a
        change += moved.detach().double().square().sum().item()
        total += layer.get_base_layer().weight.double().square().sum().item()
    assert lora.relative_change(model) == pytest.approx((change / total) ** 0.5, rel=1e-5)


def test_training_leaves_the_base_as_it_was(world: World, tmp_path: Path):
    def digest(model: torch.nn.Module) -> str:
        tensors = {
            n.replace(".base_layer", ""): t
            for n, t in model.state_dict().items()
            if "lora_" not in n
        }
        joined = b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors))
        return hashlib.sha256(joined).hexdigest()

    before = digest(load_model(world.ref))
    trainer = world.trainer(tmp_path, lines(9), dropout=0.05)
    trainer.run()
    assert digest(trainer.model.get_base_model()) == before
    assert lora.relative_change(trainer.model) > 1e-3


def test_keys_reach_every_dropout_of_the_adapter(world: World):
    model, keys = world.adapted(recipe(dropout=0.05))
    assert isinstance(keys, DropoutKeys)
    for name, layer in lora.lora_layers(model):
        assert layer.lora_dropout["default"].keys is keys, name
