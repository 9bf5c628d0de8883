"""Bases of other families: their own image processor, vision tower and message format."""

from __future__ import annotations

import pytest
import torch
from PIL import Image
from transformers import (
    AutoTokenizer,
    LlavaOnevisionConfig,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionProcessor,
    MllamaImageProcessor,
    MllamaProcessor,
)

from adaptermill.errors import UserError
from adaptermill.models.base import BaseRef, Processor, load_model, load_processor
from adaptermill.models.encode import Encoder
from adaptermill.models.scoring import target_logits
from tests.models.test_encode import TARGET, ask
from tests.other_bases import IMAGE, make_llava


@pytest.fixture(scope="module")
def llava(tiny: BaseRef, tmp_path_factory: pytest.TempPathFactory) -> BaseRef:
    return make_llava(tmp_path_factory.mktemp("llava") / "base", tiny)


def test_rows_are_encoded_and_scored(llava: BaseRef):
    encoder = Encoder(load_processor(llava))
    assert llava.architecture == "LlavaForConditionalGeneration"
    assert not encoder.drops_images
    assert encoder.end_of_turn == "<|im_end|>"
    messages = ask(f"a {IMAGE}", None, "b", None)
    images = [Image.effect_noise(size, 50).convert("RGB") for size in ((64, 40), (30, 90))]
    encoded = encoder.encode(messages, TARGET, images)
    assert encoded.image_tokens == 2 * 4  # 28 x 28 pixels in patches of 14
    assert encoded.model_inputs["pixel_values"].shape == (2, 3, 28, 28)
    assert encoder.measure(messages, TARGET, [(64, 40), (30, 90)]).total == len(encoded.input_ids)
    assert f"a {IMAGE}" in encoder.tokenizer.decode(encoded.input_ids)
    with torch.no_grad():
        logits = target_logits(load_model(llava), encoded, "cpu")
    assert logits.shape == (len(encoded.targets), len(encoder.tokenizer))


def test_pixels_are_those_of_the_pil_processor(llava: BaseRef):
    """With torchvision installed another one would be chosen, and give other pixels."""
    assert "Pil" in type(load_processor(llava).multimodal.image_processor).__name__


class Onevision(LlavaOnevisionProcessor):
    """As its authors save it, less the video half that needs torchvision."""

    @classmethod
    def get_attributes(cls) -> list[str]:
        return ["image_processor", "tokenizer"]


def test_settings_of_a_processor_stay_where_its_video_half_is_left_out(tiny, tmp_path):
    """The number of tokens of an image is a setting of LLaVA-OneVision's processor."""
    tokenizer = AutoTokenizer.from_pretrained(tiny.path)
    images = LlavaOnevisionImageProcessor(
        size={"height": 28, "width": 28}, image_grid_pinpoints=[[28, 56], [56, 28], [56, 56]]
    )
    saved = Onevision(
        images,
        tokenizer,
        num_image_tokens=4,
        vision_feature_select_strategy="full",
        image_token=IMAGE,
        video_token="<|video_pad|>",
        chat_template=tokenizer.chat_template,
    )
    saved.save_pretrained(tmp_path)
    LlavaOnevisionConfig().save_pretrained(tmp_path)
    ref = BaseRef("onevision", None, str(tmp_path), "", "", True, "LlavaOnevision")
    encoder = Encoder(load_processor(ref))
    made = encoder.encode(ask("a", None), TARGET, [Image.new("RGB", (64, 40))])
    own = saved(text=[encoder.render(ask("a", None))], images=[Image.new("RGB", (64, 40))])
    assert made.input_ids[: made.prompt_length].tolist() == own["input_ids"][0]
    assert made.image_tokens > 4


def test_a_base_that_looks_by_cross_attention_is_said(tiny):
    tokenizer = AutoTokenizer.from_pretrained(tiny.path)
    tokenizer.add_special_tokens(
        {"bos_token": "<|endoftext|>", "additional_special_tokens": ["<|image|>", "<|python_tag|>"]}
    )
    template = tokenizer.chat_template.replace(IMAGE, "<|image|>")
    images = MllamaImageProcessor(size={"height": 28, "width": 28}, max_image_tiles=4)
    encoder = Encoder(Processor(tokenizer, MllamaProcessor(images, tokenizer, template)))
    with pytest.raises(UserError, match="cross-attention"):
        encoder.measure(ask("a", None), TARGET, [(64, 64)])
