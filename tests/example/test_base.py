"""The example base: a folder as any other model's, the same bits each time, and it learns."""

from __future__ import annotations

import hashlib
import re
from itertools import islice
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForImageTextToText, AutoTokenizer

from adaptermill.example.base import build_base, encode, generic_episodes, generic_rows, loss_of
from adaptermill.example.episodes import draw_episode
from adaptermill.models.base import load_model, load_processor, resolve
from adaptermill.models.encode import Encoder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("base") / "base"
    folder.mkdir()
    lines: list[str] = []
    build_base(folder, seed=0, steps=3, show=lines.append)
    return folder, lines


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_it_loads_as_any_model_and_has_every_hard_part(built: tuple[Path, list[str]]) -> None:
    folder, lines = built
    config = AutoConfig.from_pretrained(folder)
    assert set(config.text_config.layer_types) == {"linear_attention", "full_attention"}
    assert config.vision_config.depth >= 1
    model = AutoModelForImageTextToText.from_pretrained(folder)
    assert sum(weight.numel() for weight in model.parameters()) < 5_000_000
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) <= config.text_config.vocab_size
    assert tokenizer.eos_token == "<|im_end|>"
    assert re.search(r"3/3 steps  loss \d", lines[-1])


def test_the_pipeline_encodes_the_source_for_it(
    built: tuple[Path, list[str]], tmp_path: Path
) -> None:
    ref = resolve("example", None, str(built[0]), tmp_path / "hashes.parquet")
    assert ref.multimodal
    encoder, model = Encoder(load_processor(ref)), load_model(ref)
    episode = draw_episode(0, 0)
    row, page = episode.rows[0], episode.pages[0]
    encoded = encoder.encode(row["messages"], row["target"], [page.draw()])
    # 7 x 5 cells of 32 pixels, and a prompt short enough for quick training.
    assert encoded.image_tokens == 35 and encoded.has_action_key
    assert 100 < encoded.prompt_length < 400
    text = encoder.tokenizer.decode(encoded.targets)
    assert text == row["target"] + "<|im_end|>"
    with torch.no_grad():
        assert loss_of(model, [encoded]).isfinite()


def test_two_builds_are_equal_bit_by_bit(built: tuple[Path, list[str]], tmp_path: Path) -> None:
    build_base(tmp_path, seed=0, steps=3, show=lambda line: None)
    assert digests(tmp_path) == digests(built[0])


@pytest.mark.slow
def test_training_lowers_the_loss_on_rows_that_it_has_not_seen(
    built: tuple[Path, list[str]], tmp_path: Path
) -> None:
    ref = resolve("example", None, str(built[0]), tmp_path / "hashes.parquet")
    encoder, model = Encoder(load_processor(ref)), load_model(ref)
    others = [encode(encoder, row) for row in islice(generic_rows(1), 8)]
    with torch.no_grad():
        begun = loss_of(model, others).item()
    folder = tmp_path / "more"
    folder.mkdir()
    build_base(folder, seed=0, steps=15, show=lambda line: None)
    more = load_model(resolve("example", None, str(folder), tmp_path / "hashes.parquet"))
    with torch.no_grad():
        assert loss_of(more, others).item() < begun - 0.5


def test_generic_rows_are_no_rows_of_a_source() -> None:
    generic = {row["target"] for e in islice(generic_episodes(0), 200) for row in e.rows}
    source = {row["target"] for index in range(200) for row in draw_episode(0, index).rows}
    # The actions are the same, what the agent says and where it grips is not.
    assert not generic & source
