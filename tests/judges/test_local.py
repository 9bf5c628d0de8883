"""Judges that run a model here: a tiny one answers greedily, and gives the gold answer its odds."""

import math

import pytest
import torch
from PIL import Image

from adaptermill.judges.gold_likelihood import GoldLikelihood
from adaptermill.judges.llm import Llm
from adaptermill.judges.local_model import LocalModel
from adaptermill.judges.template import Template
from adaptermill.models.base import load_model, load_processor
from adaptermill.models.encode import Encoder
from tests.judges.building import Kept, example
from tests.tiny_base import make_tiny_base

ASK = "So?"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_tiny_base(tmp_path_factory.mktemp("tiny") / "base")


def picture(_):
    return Image.new("RGB", (64, 48), "navy")


def test_a_local_model_answers_every_prompt_the_same_way_in_any_company(base):
    template = Template("{{ query }} {{ output }}", None)
    examples = [example(str(k), f"q{k}") for k in range(3)]
    settings = {"answer": "yes_no", "good": "yes"}
    together, alone = Kept(), Kept()
    Llm(template, settings, LocalModel(base, 4)).judge(iter(examples), together)
    for one in examples:
        Llm(template, settings, LocalModel(base, 4)).judge(iter([one]), alone)
    assert together == alone and len(together) == 3
    assert {verdict.verdict for verdict in together.values()} <= {"unreadable", "yes", "no"}


def test_gold_likelihood_is_the_mean_log_probability_of_the_gold_tokens(base):
    judge = GoldLikelihood(ASK, base, picture)
    one = example("four, I think", "What is 2 + 2?", gold=" Press the button. ")
    verdict = judge.verdict(one)
    model, encoder = load_model(base), Encoder(load_processor(base))
    messages = [
        {"role": "user", "content": "What is 2 + 2?"},
        {"role": "assistant", "content": "four, I think"},
        {"role": "user", "content": ASK},
    ]
    encoded = encoder.encode(messages, "Press the button.", [])
    gold = encoded.targets[:-1]
    assert encoder.tokenizer.decode(gold) == "Press the button."
    with torch.inference_mode():
        logps = model(input_ids=encoded.input_ids[None]).logits.double().log_softmax(-1)[0]
    places = range(encoded.prompt_length - 1, len(encoded.input_ids) - 2)
    mean = sum(logps[place, token] for place, token in zip(places, gold, strict=True)) / len(gold)
    assert verdict.reward == pytest.approx(math.exp(mean), rel=1e-4)
    assert verdict.verdict == "scored" and f"over {len(gold)} tokens" in verdict.detail


def test_what_was_said_so_far_and_what_was_seen_count(base):
    judge = GoldLikelihood(ASK, base, picture)
    shown = [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "Look."}]
    seen = example("a", messages=[{"role": "user", "content": shown}], images=("x",), gold="12")
    rewards = [
        judge.verdict(one).reward
        for one in (example("a", "Look.", gold="12"), example("b", "Look.", gold="12"), seen)
    ]
    assert len(set(rewards)) == 3 and all(0 < reward <= 1 for reward in rewards)


def test_without_a_gold_answer_nothing_is_loaded_or_said(tmp_path):
    verdict = GoldLikelihood(ASK, None, picture).verdict(example())
    assert (verdict.reward, verdict.verdict) == (None, "no_gold")
