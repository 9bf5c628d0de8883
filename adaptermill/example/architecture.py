"""A tiny Qwen3.5 vision-language model with its own tokenizer, chat template and image processor.

It has all that makes the real architecture hard: DeltaNet and attention layers, a vision tower and
multimodal positions. `build` writes an untrained one as a folder that `from_pretrained` loads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
)

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE_PAD, VIDEO_PAD = "<|image_pad|>", "<|video_pad|>"
CONTROL_TOKENS = (PAD, START, END, VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD)
PATCH, MERGE = 16, 2

# ChatML: a turn is <|im_start|>role, a line feed, the content, <|im_end|>, a line feed.
CHAT_TEMPLATE = """\
{%- macro show(content) -%}
{%- if content is string -%}{{ content }}
{%- else -%}
{%- for part in content -%}
{%- if part.type == 'text' -%}{{ part.text }}
{%- else -%}<|vision_start|><|image_pad|><|vision_end|>
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + show(message.content) + '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- endif -%}
"""


@dataclass(frozen=True)
class Sizes:
    """How large the model is; `layers` names each layer `linear_attention` or `full_attention`."""

    hidden: int = 128
    intermediate: int = 256
    layers: tuple[str, ...] = (
        "linear_attention",
        "full_attention",
        "linear_attention",
        "full_attention",
    )
    heads: int = 4
    head_dim: int = 32
    vision_hidden: int = 64
    vision_depth: int = 2
    vocabulary: int = 1024


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of at most `vocabulary` tokens, the control tokens included.

    A space before a number or a capital letter is a token of its own, so that names and numbers
    are the same tokens wherever they stand: a small model copies them more easily.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" (?=[A-Z0-9])"), "isolated"),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.ByteLevel(False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(CONTROL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=list(CONTROL_TOKENS[1:]),
        chat_template=CHAT_TEMPLATE,
    )


def make_model(
    tokenizer: PreTrainedTokenizerFast, sizes: Sizes, seed: int
) -> Qwen3_5ForConditionalGeneration:
    """The untrained model in float32, its weights drawn from `seed`."""
    ids = dict(
        zip(CONTROL_TOKENS, tokenizer.convert_tokens_to_ids(list(CONTROL_TOKENS)), strict=True)
    )
    config = Qwen3_5Config(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": sizes.hidden,
            "intermediate_size": sizes.intermediate,
            "num_hidden_layers": len(sizes.layers),
            "layer_types": list(sizes.layers),
            "num_attention_heads": sizes.heads,
            "num_key_value_heads": max(1, sizes.heads // 2),
            "head_dim": sizes.head_dim,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 32,
            "linear_value_head_dim": 32,
            "max_position_embeddings": 32768,
            "tie_word_embeddings": True,
            "pad_token_id": ids[PAD],
            "eos_token_id": ids[END],
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "partial_rotary_factor": 0.25,
                "mrope_section": _sections(sizes.head_dim // 8),
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": sizes.vision_depth,
            "hidden_size": sizes.vision_hidden,
            "intermediate_size": 2 * sizes.vision_hidden,
            "num_heads": 4,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 2,
            "out_hidden_size": sizes.hidden,
            "num_position_embeddings": 256,
        },
        image_token_id=ids[IMAGE_PAD],
        video_token_id=ids[VIDEO_PAD],
        vision_start_token_id=ids[VISION_START],
        vision_end_token_id=ids[VISION_END],
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3_5ForConditionalGeneration(config)
    model.generation_config.eos_token_id = ids[END]
    model.generation_config.pad_token_id = ids[PAD]
    return model


def _sections(pairs: int) -> list[int]:
    """Rotary pairs shared out over time, height and width."""
    third = pairs // 3
    return [pairs - 2 * third, third, third]


def save(
    folder: Path, model: Qwen3_5ForConditionalGeneration, tokenizer: PreTrainedTokenizerFast
) -> None:
    """Writes the model with all that `from_pretrained` needs."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    images = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": PATCH,
        "merge_size": MERGE,
        "temporal_patch_size": 2,
        "size": {"shortest_edge": (PATCH * MERGE) ** 2, "longest_edge": 1280 * 800},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "processor_class": "Qwen3VLProcessor",
    }
    text = json.dumps(images, indent=2)
    (folder / "preprocessor_config.json").write_text(text + "\n", encoding="utf-8")


def build(folder: Path, texts: Iterable[str], sizes: Sizes, seed: int = 0) -> None:
    """Writes an untrained base whose tokenizer has seen `texts`."""
    tokenizer = train_tokenizer(texts, sizes.vocabulary)
    save(folder, make_model(tokenizer, sizes, seed), tokenizer)
