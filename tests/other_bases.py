"""Random tiny bases of other image-text families than Qwen, as their authors save them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    CLIPImageProcessor,
    CLIPVisionConfig,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3ImageProcessorPil,
    Gemma3Processor,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3ImageProcessorPil,
    Idefics3Processor,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    Qwen2Config,
    Qwen3_5TextConfig,
    Qwen3Config,
)

from adaptermill.models.base import BaseRef, resolve

SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 2}
IMAGE = "<|image_pad|>"
_SLOT = "<|vision_start|><|image_pad|><|vision_end|>"


def make_llava(folder: Path, tiny: BaseRef) -> BaseRef:
    """LLaVA: a CLIP tower, a projector and a Llama."""
    tokenizer = AutoTokenizer.from_pretrained(tiny.path)
    torch.manual_seed(0)
    config = LlavaConfig(
        text_config=LlamaConfig(**SHAPE, **HEADS, vocab_size=len(tokenizer)),
        vision_config=CLIPVisionConfig(**SHAPE, **HEADS, image_size=28, patch_size=14),
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE),
    )
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    LlavaProcessor(
        image_processor=CLIPImageProcessor(
            size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
        ),
        tokenizer=tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token=IMAGE,
        chat_template=tokenizer.chat_template.replace(_SLOT, IMAGE),
    ).save_pretrained(folder)
    return resolve("llava", None, str(folder), folder.parent / "hashes.parquet")


def make_idefics3(folder: Path, tiny: BaseRef) -> BaseRef:
    """Idefics3, whose architecture SmolVLM shares: an image is several tiles between row marks."""
    tokenizer = AutoTokenizer.from_pretrained(tiny.path)
    tiles = [f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2)]
    _add(tokenizer, "<fake_token_around_image>", "<image>", "<global-img>", *tiles)
    torch.manual_seed(0)
    config = Idefics3Config(
        text_config=LlamaConfig(**SHAPE, **HEADS, vocab_size=len(tokenizer)).to_dict(),
        vision_config={**SHAPE, **HEADS, "image_size": 32, "patch_size": 8},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
    )
    Idefics3ForConditionalGeneration(config).save_pretrained(folder)
    Idefics3Processor(
        Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32}),
        tokenizer,
        image_seq_len=4,
        chat_template=tokenizer.chat_template.replace(_SLOT, "<image>"),
    ).save_pretrained(folder)
    return resolve("idefics3", None, str(folder), folder.parent / "hashes.parquet")


def make_gemma3(folder: Path, tiny: BaseRef) -> BaseRef:
    """Gemma 3: sliding windows, and image tokens that see each other both ways."""
    tokenizer = AutoTokenizer.from_pretrained(
        tiny.path,
        extra_special_tokens={
            "image_token": "<image_soft_token>",
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
        },
    )
    torch.manual_seed(0)
    config = Gemma3Config(
        text_config={
            **SHAPE,
            **HEADS,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "vocab_size": len(tokenizer),
            "sliding_window": 16,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        vision_config={**SHAPE, **HEADS, "image_size": 32, "patch_size": 8},
        mm_tokens_per_image=4,
        image_token_id=tokenizer.image_token_id,
        boi_token_index=tokenizer.convert_tokens_to_ids("<start_of_image>"),
        eoi_token_index=tokenizer.convert_tokens_to_ids("<end_of_image>"),
    )
    Gemma3ForConditionalGeneration(config).save_pretrained(folder)
    Gemma3Processor(
        Gemma3ImageProcessorPil(size={"height": 32, "width": 32}),
        tokenizer,
        image_seq_length=4,
        chat_template=tokenizer.chat_template.replace(_SLOT, "<start_of_image>"),
    ).save_pretrained(folder)
    return resolve("gemma3", None, str(folder), folder.parent / "hashes.parquet")


def make_text(folder: Path, tiny: BaseRef, config: PreTrainedConfig) -> BaseRef:
    """A text-only base of the architecture that `config` is of."""
    tokenizer = AutoTokenizer.from_pretrained(tiny.path)
    torch.manual_seed(0)
    config.vocab_size = len(tokenizer)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return resolve(config.model_type, None, str(folder), folder.parent / "hashes.parquet")


_GROUPED = {**SHAPE, **HEADS, "num_key_value_heads": 1, "head_dim": 16}
TEXT: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama": lambda: LlamaConfig(**SHAPE, **HEADS),
    "qwen2": lambda: Qwen2Config(**SHAPE, **HEADS, num_key_value_heads=1),
    "qwen3": lambda: Qwen3Config(**_GROUPED),
    "qwen3_5_text": lambda: Qwen3_5TextConfig(
        **_GROUPED,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
    ),
}
OTHER: dict[str, Callable[[Path, BaseRef], BaseRef]] = {
    "llava": make_llava,
    "idefics3": make_idefics3,
    "gemma3": make_gemma3,
}


def _add(tokenizer: PreTrainedTokenizerBase, *tokens: str) -> None:
    tokenizer.add_special_tokens({"additional_special_tokens": list(tokens)})
