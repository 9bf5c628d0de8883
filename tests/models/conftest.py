"""Bases of the model tests: the tiny Qwen3.5, and a text-only model with the same tokenizer."""

from __future__ import annotations

import shutil

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from adaptermill.models.base import BaseRef, load_processor, resolve
from adaptermill.models.encode import Encoder
from tests.tiny_base import make_tiny_base


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> BaseRef:
    return make_tiny_base(tmp_path_factory.mktemp("tiny") / "base")


@pytest.fixture(scope="session")
def encoder(tiny: BaseRef) -> Encoder:
    return Encoder(load_processor(tiny))


@pytest.fixture(scope="session")
def text_only(tiny: BaseRef, tmp_path_factory: pytest.TempPathFactory) -> BaseRef:
    folder = tmp_path_factory.mktemp("text") / "base"
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=400,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(f"{tiny.path}/{name}", folder / name)
    return resolve("text", None, str(folder), folder.parent / "hashes.parquet")
