"""Protects generated answers: exactly the greedy ones, however much of them the draft gave."""

import json

import pytest
import torch
from peft import PeftModel

from adaptermill.evaluation import predictions
from adaptermill.evaluation.generated import Answerer
from adaptermill.evaluation.teacher_forced import Scored, score
from adaptermill.models.base import load_model, load_processor
from adaptermill.models.encode import Encoder
from adaptermill.models.scoring import forward_inputs
from adaptermill.rows.dataset import open_sources
from adaptermill.rows.images import decode
from scripts import evaluate
from tests.evaluation.building import click
from tests.evaluation.conftest import Place


@pytest.fixture(scope="module")
def parts(place: Place):
    encoder = Encoder(load_processor(place.ref))
    model = PeftModel.from_pretrained(load_model(place.ref), place.adapter).eval()
    rows, images = open_sources([place.ingested.folder])
    return encoder, model, rows, images


def encode(parts, row_id, target):
    encoder, _, rows, images = parts
    row = rows.get(row_id)
    return encoder.encode(row.messages, target, [decode(images.bytes(n)) for n in row.images])


def greedy_without_cache(model, encoder, encoded, count):
    """The plainest decoding there is: the whole text forward again for every token."""
    start = encoded.prompt_length
    inputs = forward_inputs(encoded, "cpu")
    types = inputs.pop("mm_token_type_ids")[:, :start]
    ids = inputs.pop("input_ids")[:, :start]
    made = []
    for _ in range(count):
        with torch.no_grad():
            logits = model(**inputs, input_ids=ids, mm_token_type_ids=types, use_cache=False).logits
        token = logits[0, -1].argmax().item()
        if token == encoder.end_of_turn_id:
            break
        made.append(token)
        ids = torch.cat([ids, torch.tensor([[token]])], dim=1)
        types = torch.cat([types, torch.zeros((1, 1), dtype=types.dtype)], dim=1)
    return made


@pytest.mark.parametrize("row_id", ["main/task-0/0", "main/task-1/3"])
def test_the_answer_is_the_greedy_one(parts, row_id):
    encoder, model, *_ = parts
    encoded = encode(parts, row_id, click(3))
    expected = greedy_without_cache(model, encoder, encoded, 12)
    answerer = Answerer(model, encoder, 12)
    assert answerer.tokens(encoded, score(model, encoded, "cpu"), "cpu") == expected
    assert answerer.answer(encoded, score(model, encoded, "cpu"), "cpu") == (
        encoder.tokenizer.decode(expected)
    )


def test_a_draft_that_agrees_for_a_while_changes_nothing(parts):
    encoder, model, *_ = parts
    encoded = encode(parts, "main/task-0/0", click(3))
    expected = greedy_without_cache(model, encoder, encoded, 12)
    for agreed in (0, 1, 5, 11, 12):
        text = encoder.tokenizer.decode(expected[:agreed]) + "x"
        draft = encode(parts, "main/task-0/0", text)
        found = Answerer(model, encoder, 12).tokens(draft, score(model, draft, "cpu"), "cpu")
        assert found == expected


def test_a_model_that_knows_the_answer_need_not_generate(parts):
    encoder, model, *_ = parts
    encoded = encode(parts, "main/task-0/0", click(3))
    perfect = Scored(torch.zeros(len(encoded.targets)), encoded.targets, encoded.targets)
    # None as a model would fail if it were asked.
    answerer = Answerer(model, encoder, 100)
    answerer.model = None
    assert answerer.answer(encoded, perfect, "cpu") == click(3)
    answerer.max_new_tokens = 5
    assert answerer.tokens(encoded, perfect, "cpu") == encoded.targets[:5].tolist()


def test_an_answer_that_ends_early_is_cut_at_its_end(parts):
    encoder, model, *_ = parts
    encoded = encode(parts, "main/task-0/0", click(3))
    greedy = encoded.targets.clone()
    greedy[3] = encoder.end_of_turn_id
    scored = Scored(torch.zeros(len(greedy)), greedy, encoded.targets)
    answerer = Answerer(model, encoder, 100)
    answerer.model = None
    assert answerer.tokens(encoded, scored, "cpu") == encoded.targets[:3].tolist()


def test_the_base_s_own_sampling_settings_play_no_part(parts):
    encoder, model, *_ = parts
    encoded = encode(parts, "main/task-0/0", click(3))
    expected = greedy_without_cache(model, encoder, encoded, 12)
    own = model.get_base_model().generation_config
    before = own.to_dict()
    try:
        own.update(do_sample=True, temperature=5.0, repetition_penalty=9.0, min_new_tokens=3)
        found = Answerer(model, encoder, 12).tokens(encoded, score(model, encoded, "cpu"), "cpu")
        assert found == expected
        assert own.repetition_penalty == 9.0
    finally:
        own.update(**before)


def test_evaluate_writes_generated_answers(place, tmp_path):
    output = tmp_path / "drag.parquet"
    given = [*place.arguments(output, generate=True, max_new_tokens=6)]
    evaluate.main([*given, "--adapter", str(place.adapter)])
    found = predictions.read(output)
    assert found.origin.generated
    assert found.rows["predicted"].null_count == 0
    assert json.loads(found.rows["target"][0].as_py())
