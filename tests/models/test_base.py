"""What a base is (identity), what is none, and that a broken one never loads half."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from adaptermill.errors import UserError
from adaptermill.models.base import BaseRef, load_model, load_processor, resolve
from scripts import resolve_base


@pytest.fixture
def copy(tiny: BaseRef, tmp_path: Path) -> Path:
    """A base folder that may be spoiled."""
    return Path(shutil.copytree(tiny.path, tmp_path / "base"))


def resolved(folder: Path, name: str | None = None) -> BaseRef:
    return resolve(name or str(folder), None, str(folder), folder.parent / "hashes.parquet")


def change_byte(path: Path) -> None:
    """Another last character or byte, the size as it was."""
    data = bytearray(path.read_bytes())
    data[-1] = data[-1] ^ 1 if path.suffix == ".safetensors" else ord(" ")
    path.write_bytes(data)


@pytest.mark.parametrize(
    "name",
    ["model.safetensors", "tokenizer.json", "chat_template.jinja", "preprocessor_config.json"],
)
def test_the_identity_changes_with_every_byte(tiny, copy, name):
    before = resolved(copy)
    assert before.identity == tiny.identity
    change_byte(copy / name)
    after = resolved(copy)
    assert after.identity != before.identity
    # Weights decide no tokens: what was measured stays valid.
    assert (after.processor_hash == before.processor_hash) == (name == "model.safetensors")


def test_the_identity_stays_when_files_are_touched_or_described(copy):
    before = resolved(copy)
    for path in copy.iterdir():
        os.utime(path, ns=(1, 1))
    (copy / "README.md").write_text("about this model")
    (copy / ".hidden").write_text("of the file browser")
    assert resolved(copy).identity == before.identity


def test_a_reference_is_written_and_read_back(tiny, tmp_path):
    tiny.write(tmp_path / "base.json")
    assert BaseRef.read(tmp_path / "base.json") == tiny
    assert tiny.multimodal
    assert tiny.architecture == "Qwen3_5ForConditionalGeneration"


def test_the_name_is_no_place_on_this_machine(copy):
    assert resolved(copy).name == "base"
    assert resolved(copy, "example").name == "example"


def spoil(folder: Path, *names: str) -> None:
    for name in names:
        for path in folder.glob(name):
            path.unlink()


@pytest.mark.parametrize(
    ("removed", "said"),
    [
        (["*"], "no config.json"),
        (["config.json"], "no config.json"),
        (["*.safetensors"], "no weights"),
        (["tokenizer*"], "no tokenizer"),
    ],
)
def test_a_folder_that_is_no_model_says_what_it_lacks(copy, removed, said):
    spoil(copy, *removed)
    with pytest.raises(UserError, match=said) as error:
        resolved(copy)
    assert str(copy) in str(error.value)


@pytest.mark.parametrize("removed", ["*", "*.safetensors"])
def test_weights_as_gguf_alone_name_the_command_that_converts_them(copy, removed):
    spoil(copy, removed)
    (copy / "model.Q4_1.gguf").write_bytes(b"GGUF")
    with pytest.raises(UserError, match=r"base_from_gguf\.py --gguf"):
        resolved(copy)


def test_a_config_of_no_known_architecture_is_said(copy):
    (copy / "config.json").write_text(json.dumps({"model_type": "no_such_model"}))
    with pytest.raises(UserError, match=r"config\.json of .* does not load"):
        resolved(copy)


@pytest.mark.parametrize("name", ["/no/such/folder", "./nothing", "nothing", "a/b/c"])
def test_a_name_that_is_neither_folder_nor_hub_id_is_said(name, tmp_path):
    with pytest.raises(UserError, match="no folder with a model and no hub id"):
        resolve(name, None, None, tmp_path / "hashes.parquet")


def test_without_network_a_hub_id_names_the_way_out(tmp_path, capsys):
    arguments = ["--hash-cache", str(tmp_path / "h"), "--output", str(tmp_path / "base.json")]
    with pytest.raises(UserError, match="hf download nobody/nothing-at-all"):
        resolve_base.main(["--model", "nobody/nothing-at-all", *arguments])
    assert not (tmp_path / "base.json").exists()


@pytest.mark.parametrize("name", ["owner/two words", "owner/-x", "owner/name.git"])
def test_a_name_that_the_hub_would_not_take_is_said(name, tmp_path):
    with pytest.raises(UserError, match="no folder here and no hub id"):
        resolve(name, None, None, tmp_path / "hashes.parquet")


def test_resolve_base_writes_the_reference_and_tells_it(tiny, tmp_path, capsys):
    output = tmp_path / "base.json"
    arguments = ["--hash-cache", str(tmp_path / "h"), "--output", str(output)]
    resolve_base.main(["--model", "example", "--folder", tiny.path, *arguments])
    ref = BaseRef.read(output)
    assert (ref.model, ref.identity) == ("example", tiny.identity)
    said = capsys.readouterr().out
    assert "takes screenshots" in said
    assert "<|im_end|>" in said


def test_weights_that_are_cut_short_or_not_all_there_are_said(copy):
    ref = resolved(copy)
    weights = copy / "model.safetensors"
    tensors = load_file(weights)
    lost = "model.language_model.layers.0.mlp.up_proj.weight"
    kept = {name: tensor for name, tensor in tensors.items() if name != lost}
    save_file(kept, weights, metadata={"format": "pt"})
    with pytest.raises(UserError, match=f"lacks 1 weights, for instance {lost}"):
        load_model(ref)
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(UserError, match="cannot be loaded"):
        load_model(ref)


def test_a_tokenizer_without_template_is_said(copy, tmp_path):
    spoil(copy, "chat_template.jinja")
    arguments = ["--hash-cache", str(tmp_path / "h"), "--output", str(tmp_path / "base.json")]
    with pytest.raises(UserError, match="no chat template"):
        resolve_base.main(["--model", str(copy), *arguments])


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "rows: .* 0 image slots for 1"),
        ("{{ raise_exception('not for chat') }}", "conversation: not for chat"),
    ],
)
def test_a_template_that_shows_no_screenshot_is_said(copy, tmp_path, template, said):
    """Before a row is measured with it."""
    (copy / "chat_template.jinja").write_text(template)
    arguments = ["--hash-cache", str(tmp_path / "h"), "--output", str(tmp_path / "base.json")]
    with pytest.raises(UserError, match=f"takes no {said}"):
        resolve_base.main(["--model", str(copy), *arguments])


def test_a_model_is_loaded_frozen_in_evaluation_mode(tiny, text_only):
    for ref in (tiny, text_only):
        model = load_model(ref)
        assert not model.training
        assert not any(parameter.requires_grad for parameter in model.parameters())
        assert model.dtype == torch.float32
        assert model.config._attn_implementation == "sdpa"
    assert load_processor(tiny).multimodal is not None
    assert load_processor(text_only).multimodal is None
