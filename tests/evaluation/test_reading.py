"""Rows that are run together score and answer as each does by itself, whole."""

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model

from adaptermill.evaluation.decoding import decode
from adaptermill.evaluation.generated import Answerer
from adaptermill.evaluation.prompts import Prompts
from adaptermill.evaluation.reading import read_rows
from adaptermill.evaluation.teacher_forced import score
from adaptermill.models.base import load_model, load_processor
from adaptermill.models.encode import Encoder
from adaptermill.models.prefix import common_prefix
from adaptermill.rows.dataset import open_sources
from adaptermill.rows.images import decode as picture_of
from tests.evaluation.building import click
from tests.evaluation.conftest import Place
from tests.evaluation.test_generated import greedy_without_cache
from tests.other_bases import make_gemma3, make_idefics3, make_llava

LIMIT = 12


class Rows:
    """The source's rows for one base, encoded, with recorded answers of several lengths."""

    def __init__(self, place: Place, ref) -> None:
        self.encoder = Encoder(load_processor(ref))
        rows, images = open_sources([place.ingested.folder])
        names = [line["row_id"] for line in place.ingested.table("shards")][:7]
        self.encoded = []
        for number, name in enumerate(names):
            row = rows.get(name)
            shown = [] if self.encoder.drops_images else row.images
            pictures = [picture_of(images.bytes(image)) for image in shown]
            text = click(number) * (1 + number % 3) if number else "x"
            more = {"type": "text", "text": " Look again." * (number % 4)}
            messages = [dict(message) for message in row.messages]
            said = messages[-1]["content"]
            parts = [{"type": "text", "text": said}] if isinstance(said, str) else said
            messages[-1]["content"] = [*parts, more]
            self.encoded.append(self.encoder.encode(messages, text, pictures))

    def alone(self, model) -> list:
        return [score(model, row, "cpu") for row in self.encoded]


@pytest.fixture(scope="module")
def rows(place) -> Rows:
    return Rows(place, place.ref)


@pytest.fixture(scope="module")
def model(place):
    return PeftModel.from_pretrained(load_model(place.ref), place.adapter).eval()


def same(read, expected) -> None:
    for (scored, _), alone in zip(read, expected, strict=True):
        assert torch.equal(scored.targets, alone.targets)
        torch.testing.assert_close(scored.logps, alone.logps, rtol=0, atol=1e-5)
        assert torch.equal(scored.greedy, alone.greedy)


def test_rows_differ_in_length_and_begin_alike(rows):
    """The rest would show little of rows that have nothing in common, or of one length."""
    assert common_prefix(rows.encoded) > 10
    assert len({row.prompt_length for row in rows.encoded}) > 2
    assert any(row.first_image is not None for row in rows.encoded)
    assert min(len(row.targets) for row in rows.encoded) == 2


def test_scores_are_those_of_whole_rows(rows, model):
    told = []
    read = read_rows(model, rows.encoded, "cpu", tell=lambda number, _: told.append(number))
    same(read, rows.alone(model))
    assert told == list(range(len(rows.encoded)))
    with model.disable_adapter():
        same(read_rows(model, rows.encoded, "cpu"), rows.alone(model))
    same(read_rows(model, rows.encoded[:1], "cpu"), rows.alone(model)[:1])


@pytest.mark.parametrize("batch_tokens", [1, 700, 100_000])
def test_answers_are_those_of_one_row_without_a_cache(rows, model, batch_tokens):
    """However many rows are decoded side by side, and whatever is held of them."""
    answerer = Answerer(model, rows.encoder, LIMIT)
    read = read_rows(model, rows.encoded, "cpu", answerer, batch_tokens=batch_tokens)
    for row, (_, answer) in zip(rows.encoded, read, strict=True):
        tokens = greedy_without_cache(model, rows.encoder, row, LIMIT)
        assert answer == rows.encoder.tokenizer.decode(tokens)


def test_answers_end_at_different_places(rows, model):
    """Every token that some answer holds is an end token in turn, so rows leave their batch."""
    plain = Answerer(model, rows.encoder, LIMIT)
    scores = rows.alone(model)
    whole = [plain.tokens(row, at, "cpu") for row, at in zip(rows.encoded, scores, strict=True)]
    for end in sorted({token for tokens in whole for token in tokens})[:6]:
        answerer = Answerer(model, rows.encoder, LIMIT)
        answerer.ends = {*answerer.ends, end}
        expected = [tokens[: tokens.index(end)] if end in tokens else tokens for tokens in whole]
        read = read_rows(model, rows.encoded, "cpu", answerer)
        assert [answer for _, answer in read] == [answerer.text(each) for each in expected]


def test_what_a_prompt_left_can_be_read_again(rows, model):
    """A forward of one token writes into the convolution's state: not into the prompt's own."""
    prompts = Prompts(model, rows.encoded, "cpu")
    prompt = prompts.read(rows.encoded[1])
    before = [state.clone() for state in prompt.states]
    tokens = rows.encoded[1].targets
    first, states = prompts.go_on(prompt, tokens[:1])
    answerer = Answerer(model, rows.encoder, LIMIT)
    decode(prompts.base, prompts.kinds, [answerer.start(prompts, prompt, [5])], answerer.ends)
    again, _ = prompts.go_on(prompt, tokens[:1])
    assert torch.equal(first, again)
    for state, kept in zip(prompt.states, before, strict=True):
        assert torch.equal(state, kept)
    assert len(states) == len(before)


@pytest.mark.parametrize("make", [make_llava, make_idefics3, make_gemma3])
def test_bases_of_other_families(place, tmp_path, make):
    """Also one whose layers are not known, where rows run by themselves."""
    ref = make(tmp_path / "base", place.ref)
    own = Rows(place, ref)
    torch.manual_seed(1)
    lora = LoraConfig(r=2, target_modules=r".*(q_proj|down_proj)", init_lora_weights=False)
    model = get_peft_model(load_model(ref), lora).eval()
    assert Prompts.can_read(model) == (make is not make_gemma3)
    answerer = Answerer(model, own.encoder, LIMIT)
    read = read_rows(model, own.encoded, "cpu", answerer)
    expected = own.alone(model)
    same(read, expected)
    for row, alone, (_, answer) in zip(own.encoded, expected, read, strict=True):
        assert answer == answerer.answer(row, alone, "cpu")
