"""From a row to tokens: what is supervised, what the action mask covers, images, look-alikes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from PIL import Image

from adaptermill.models.base import BaseRef, load_processor
from adaptermill.models.encode import (
    Encoded,
    Encoder,
    TemplatePrefixError,
    action_key_position,
)

TARGET = '{"memory": "Press the button.", "action": [{"click": {"index": 12}}]}'


def ask(*parts: str | None, system: str = "You drive a browser.") -> list[dict[str, Any]]:
    """Messages whose user turn has these text parts; None is an image."""
    shown = [
        {"type": "image_url", "image_url": {"url": "step_000.png"}}
        if part is None
        else {"type": "text", "text": part}
        for part in parts
    ]
    return [{"role": "system", "content": system}, {"role": "user", "content": shown}]


def pictures(*sizes: tuple[int, int]) -> list[Image.Image]:
    return [Image.new("RGB", size, "navy") for size in sizes]


def special_ids(encoder: Encoder) -> set[int]:
    return {t for t, added in encoder.tokenizer.added_tokens_decoder.items() if added.special}


def specials(encoder: Encoder, encoded: Encoded) -> list[str]:
    """The control tokens that the model sees, in order."""
    known = special_ids(encoder)
    ids = [token for token in encoded.input_ids.tolist() if token in known]
    return encoder.tokenizer.convert_ids_to_tokens(ids)


# ---- prompt, target, end of turn -----------------------------------------------------------------


def test_a_row_is_its_prompt_and_its_target_with_one_end_of_turn(encoder):
    encoded = encoder.encode(ask("Go."), TARGET, [])
    prompt = encoder.encode(ask("Go."), None, []).input_ids
    assert encoded.input_ids.dtype == torch.int64
    assert encoded.prompt_length == len(prompt)
    assert encoded.input_ids[: len(prompt)].equal(prompt)
    assert encoder.tokenizer.decode(encoded.targets) == TARGET + "<|im_end|>"
    assert (encoded.targets == encoder.end_of_turn_id).sum() == 1
    assert encoded.targets[-1] == encoder.end_of_turn_id
    assert len(encoded.action_mask) == len(encoded.targets)


def test_a_row_without_look_alikes_is_tokenised_as_one_text(encoder):
    messages = ask("Grüße: 你好, e\u0301", "and more < | im_end")
    text = encoder.render(messages) + TARGET + encoder.end_of_turn
    assert text.startswith("<|im_start|>system\nYou drive a browser.<|im_end|>\n")
    encoded = encoder.encode(messages, TARGET, [])
    assert encoded.input_ids.tolist() == encoder.tokenizer(text)["input_ids"]


@pytest.mark.parametrize(
    ("end", "template"),
    [
        ("<|im_end|>", "{{ m.role }}\n{{ m.content }}<|im_end|>\n"),
        ("<|endoftext|>", "{{ m.role }}: {{ m.content }}\n<|endoftext|><|im_start|>"),
        # A turn that ends with no control token: the tokenizer's own end of sequence.
        ("<|im_end|>", "{{ m.role }}: {{ m.content }}\n"),
    ],
)
def test_the_end_of_turn_comes_from_the_template(tiny, end, template):
    processor = load_processor(tiny)
    loop = "{% for m in messages %}" + template + "{% endfor %}"
    processor.tokenizer.chat_template = processor.multimodal.chat_template = loop
    encoder = Encoder(processor)
    assert encoder.end_of_turn == end
    assert encoder.end_of_turn_id == encoder.tokenizer.convert_tokens_to_ids(end)


# ---- the action mask -----------------------------------------------------------------------------

# A target, and the text from its "action" key on.
ANSWERS = [
    (TARGET, '"action": [{"click": {"index": 12}}]}'),
    ('{"action":[{"done":{}}],"memory":"m"}', '"action":[{"done":{}}],"memory":"m"}'),
    (
        '{"memory": "the \\"action\\": is", "next": {"action": 1}, "action": 2}',
        '"action": 2}',
    ),
    ('{"action_count": 1, "memory": "action", "action": 2}', '"action": 2}'),
    ('{"memory": "Ü 你好 e\u0301 👍🏽", "action": 2}', '"action": 2}'),
    (' {\n  "memory": "<|im_end|>",\n  "action": 2\n}', '"action": 2\n}'),
    ('{"memory": "m",\t"action": 2}', '"action": 2}'),
    ('{"memory": "cut short", "action": [{"cl', '"action": [{"cl'),
]


@pytest.mark.parametrize(("target", "tail"), ANSWERS)
def test_the_action_mask_begins_with_the_token_that_reaches_into_the_key(encoder, target, tail):
    encoded = encoder.encode(ask("Go."), target, [])
    assert encoded.has_action_key
    # Slowly: tokens from the end on, until they hold all of the key's text.
    ids = encoded.targets.tolist()
    begin = len(ids)
    wanted = (tail + encoder.end_of_turn).encode()
    while wanted not in encoder.tokenizer.decode(ids[begin:]).encode():
        begin -= 1
    assert encoded.action_mask.tolist() == [place >= begin for place in range(len(ids))]


@pytest.mark.parametrize(
    "target",
    [
        "Press the action button",
        '{"memory": "action"}',
        '{"next": {"action": 1}}',
        '["action", 1]',
        '{"memory": "\\"action\\": 1"',
        "{",
        '{"action',
        '{"deep": ' + "[" * 100_000,
        '{"long": ' + "1" * 10_000 + ', "action": 1}',  # more digits than Python reads
    ],
)
def test_without_an_action_key_all_of_the_target_is_masked_in(encoder, target):
    assert action_key_position(target) is None
    if len(target) < 100:
        encoded = encoder.encode(ask("Go."), target, [])
        assert not encoded.has_action_key
        assert encoded.action_mask.all()


# ---- text that looks like control tokens ---------------------------------------------------------

LOOK_ALIKES = ["<|im_end|>", "<|image_pad|>", "<|im_start|>system", "<|vision_start|><|video_pad|>"]


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_look_alikes_stay_text(encoder, text):
    """In the system turn, a text part, over two parts and in the target."""
    clean = encoder.encode(ask("a", None, "b"), TARGET, pictures((64, 64)))
    cut = len(text) // 2
    target = json.dumps({"memory": f"saw {text}", "action": []})
    messages = ask(f"a {text}", None, text[:cut], text[cut:], system=f"Never say {text}.")
    messages[1]["name"] = text
    encoded = encoder.encode(messages, target, pictures((64, 64)))
    assert specials(encoder, encoded) == specials(encoder, clean)
    assert encoded.image_tokens == clean.image_tokens == 4
    assert encoder.tokenizer.decode(encoded.targets) == target + "<|im_end|>"
    shown = encoder.tokenizer.decode(encoded.input_ids[: encoded.prompt_length])
    assert f"Never say {text}.<|im_end|>" in shown
    assert f"a {text}<|vision_start|>" in shown
    assert f"<|vision_end|>{text}<|im_end|>" in shown
    measured = encoder.measure(messages, target, [(64, 64)])
    assert measured.prompt_tokens == encoded.prompt_length


def test_a_look_alike_over_three_parts_and_overlapping_ones_stay_text(encoder):
    for parts in (["<|im", "_e", "nd|>"], ["<<|im_end|>|im_end|>"], ["<|im_end<|im_end|>|>"]):
        encoded = encoder.encode(ask(*parts), TARGET, [])
        assert len(specials(encoder, encoded)) == len(
            specials(encoder, encoder.encode(ask("a"), TARGET, []))
        )
        assert "".join(parts) in encoder.tokenizer.decode(encoded.input_ids)


def test_other_marks_in_the_text_do_not_matter(encoder):
    """<video> is no control token here; the characters that mark cuts may be in the data."""
    hieroglyphs = "".join(chr(code) for code in range(0x13000, 0x1303F))
    text = f"<video> <image> {hieroglyphs} <|im_end|>"
    encoded = encoder.encode(ask(text), TARGET, [])
    assert text in encoder.tokenizer.decode(encoded.input_ids)


def test_what_the_template_shows_beside_the_content_stays_text_too(tiny):
    processor = load_processor(tiny)
    template = processor.tokenizer.chat_template.replace(
        "show(message.content)", "show(message.content) + (message.tool_calls or '')|string"
    )
    processor.tokenizer.chat_template = processor.multimodal.chat_template = template
    encoder = Encoder(processor)
    messages = ask("a")
    messages.insert(
        1, {"role": "assistant", "content": "", "tool_calls": ["<|im_end|> \U00013000"]}
    )
    encoded = encoder.encode(messages, TARGET, [])
    assert specials(encoder, encoded).count("<|im_end|>") == 4  # three turns and the target
    assert "<|im_end|> \U00013000" in encoder.tokenizer.decode(encoded.input_ids)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ raise_exception('roles must alternate') }}", "refuses the messages: roles must"),
        ("{% for m in messages %}{{ m.content + 1 }}{% endfor %}", "refuses the messages"),
        ("{% for m in messages %}{{ m.role }}{% endfor %}", "0 image slots for 1 images"),
    ],
)
def test_a_row_that_the_template_does_not_take_is_one_bad_row(tiny, template, said):
    """It ends as a quarantined row, not as the end of the stage that measures all rows."""
    processor = load_processor(tiny)
    encoder = Encoder(processor)
    encoder.chat_template = template
    with pytest.raises(TemplatePrefixError, match=said):
        encoder.measure(ask("Go.", None), TARGET, [(64, 64)])


# ---- images --------------------------------------------------------------------------------------


def test_an_image_that_the_processor_does_not_take_is_one_bad_row(encoder):
    with pytest.raises(TemplatePrefixError, match="refuses 4000x10 pixels"):
        encoder.measure(ask("Go.", None), TARGET, [(4000, 10)])
    assert encoder.measure(ask("Go.", None), TARGET, [(800, 8)]).image_tokens > 0


def test_images_are_counted_by_their_size_and_measured_without_pixels(encoder):
    sizes = [(64, 64), (96, 32), (33, 70)]
    messages = ask("one", None, "two", None, None)
    encoded = encoder.encode(messages, TARGET, pictures(*sizes))
    image_id = encoder.tokenizer.convert_tokens_to_ids("<|image_pad|>")
    image_places = (encoded.input_ids == image_id).nonzero().flatten()
    grids = encoded.model_inputs["image_grid_thw"]
    assert len(grids) == 3
    assert len(image_places) == encoded.image_tokens == int(grids.prod(1).sum()) // 4
    assert encoded.first_image == image_places[0]
    types = encoded.model_inputs["mm_token_type_ids"][0]
    assert types.nonzero().flatten().equal(image_places)
    measured = encoder.measure(messages, TARGET, sizes)
    assert measured.prompt_tokens == encoded.prompt_length
    assert measured.target_tokens == len(encoded.targets)
    assert measured.image_tokens == encoded.image_tokens
    assert measured.total == len(encoded.input_ids)
    assert measured.has_action_key


def test_pixels_do_not_depend_on_the_other_images_of_a_row(encoder):
    both = encoder.encode(ask(None, None), TARGET, pictures((64, 64), (96, 32)))
    alone = encoder.encode(ask(None), TARGET, pictures((96, 32)))
    pixels = alone.model_inputs["pixel_values"]
    assert both.model_inputs["pixel_values"][-len(pixels) :].equal(pixels)


def test_a_text_only_base_leaves_images_out(text_only: BaseRef):
    encoder = Encoder(load_processor(text_only))
    assert encoder.drops_images
    messages = ask("before <|image_pad|>", None, "after")
    encoded = encoder.encode(messages, TARGET, pictures((64, 64)))
    assert encoded.model_inputs == {}
    assert (encoded.image_tokens, encoded.first_image) == (0, None)
    shown = encoder.tokenizer.decode(encoded.input_ids)
    assert "before <|image_pad|>\nafter<|im_end|>" in shown
    assert specials(encoder, encoded) == ["<|im_start|>", "<|im_end|>"] * 2 + [
        "<|im_start|>",
        "<|im_end|>",
    ]
    assert encoder.measure(messages, TARGET, [(64, 64)]).total == len(encoded.input_ids)


# ---- the beginning of an answer that was given ---------------------------------------------------


def begun(text: str, **changes: Any) -> list[dict[str, Any]]:
    return [*ask("Go."), {"role": "assistant", "content": text, "prefill": True, **changes}]


@pytest.mark.parametrize("given", ["<think>", "<think>so</think>", "I say: ", "<|im_end|>"])
@pytest.mark.parametrize("target", [" 4", "\n\n4", "4", TARGET, "</think>"])
def test_what_was_given_belongs_to_the_prompt_and_is_never_supervised(encoder, given, target):
    encoded = encoder.encode(begun(given), target, [])
    plain = encoder.encode(ask("Go."), None, []).input_ids
    alone = encoder.encode(begun(given), None, []).input_ids
    assert encoded.input_ids[: encoded.prompt_length].equal(alone)
    assert encoder.render(begun(given)) == encoder.render(ask("Go.")) + given
    assert encoder.tokenizer.decode(encoded.targets) == target + "<|im_end|>"
    assert encoder.tokenizer.decode(alone[len(plain) :]) == given
    # One turn begins for the answer and one ends it, whatever the given text looks like.
    assert specials(encoder, encoded) == [
        *specials(encoder, encoder.encode(ask("Go."), None, [])),
        "<|im_end|>",
    ]
    measured = encoder.measure(begun(given), target, [])
    assert (measured.prompt_tokens, measured.target_tokens) == (
        encoded.prompt_length,
        len(encoded.targets),
    )


def test_the_action_is_found_behind_what_was_given(encoder):
    encoded = encoder.encode(begun("<think>so</think>"), TARGET, [])
    unmarked = encoder.encode(ask("Go."), TARGET, [])
    assert encoded.has_action_key
    assert encoded.action_mask.equal(unmarked.action_mask)


@pytest.mark.parametrize("changes", [{"prefill": False}, {"prefill": "yes"}, {"role": "user"}])
def test_other_last_messages_are_turns(encoder, changes):
    rendered = encoder.render(begun("so", **changes))
    assert not rendered.endswith("so") and "so<|im_end|>" in rendered
