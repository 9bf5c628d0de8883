"""The local engine says what plain generation of one sequence says, whatever is beside it."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace

import pytest
import torch
from peft import PeftModel
from transformers import GenerationConfig

from adaptermill.errors import UserError
from adaptermill.models.base import load_model, load_processor, resolve
from adaptermill.models.encode import Encoder
from adaptermill.rollouts.chain import Agent, Decoding
from adaptermill.rollouts.engine import Request
from adaptermill.rollouts.local import LocalEngine
from adaptermill.rollouts.prefill import Prefill
from adaptermill.rollouts.roles import RolePrompt
from adaptermill.rollouts.sampling import next_tokens
from adaptermill.rollouts.seeds import uniforms

PROMPT = RolePrompt("", "{query}")
LONG = "You are an agent that works in a browser. Answer with JSON. " * 2


def requests():
    """Prompts of many lengths: some shared by several rows, some that begin alike, one short."""
    texts = [LONG + "Press 1.", LONG + "Press 1.", LONG + "Press 1.", LONG + "Go on and on, please"]
    texts += [LONG, "Hi", LONG + "Press 22 and then the other one.", LONG + LONG]
    return [Request([{"role": "user", "content": text}], 100 + n) for n, text in enumerate(texts)]


def agent(temperature=0.0, top_p=1.0, tokens=24, adapter=None):
    chosen = None if adapter is None else str(adapter)
    return Agent("planner", PROMPT, Decoding(temperature, top_p, tokens), chosen)


def said(engine, who, asked):
    found = {}
    engine.speak(who, asked, found.__setitem__)
    return [found[number] for number in range(len(asked))]


def plainly(ref, who, request):
    """One sequence, run from its first token for every new one: no cache, no batch."""
    model = load_model(ref)
    if who.adapter is not None:
        model = PeftModel.from_pretrained(model, who.adapter).eval()
    encoder = Encoder(load_processor(ref))
    ids = encoder.encode(request.messages, None, []).input_ids.tolist()
    draws = torch.from_numpy(uniforms(request.seed, who.decoding.max_new_tokens))
    made = []
    for place in range(who.decoding.max_new_tokens):
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([ids + made]), use_cache=False).logits[:, -1]
        token = next_tokens(
            logits, who.decoding.temperature, who.decoding.top_p, draws[place : place + 1]
        )
        made.append(token.item())
        if made[-1] == encoder.end_of_turn_id:
            break
    return encoder.tokenizer.decode(made, skip_special_tokens=True), len(made)


@pytest.mark.parametrize("temperature, top_p", [(0.0, 1.0), (1.0, 1.0), (0.9, 0.8)])
@pytest.mark.parametrize("adapted", [False, True])
def test_rows_side_by_side_are_what_each_is_alone(tiny, adapter, temperature, top_p, adapted):
    who = agent(temperature, top_p, adapter=adapter if adapted else None)
    engine = LocalEngine(tiny)
    engine.prepare([who, agent()])
    asked = requests()
    found = said(engine, who, asked)
    assert [(one.text, one.tokens) for one in found] == [plainly(tiny, who, r) for r in asked]
    # Equal texts would be equal whatever went wrong.
    assert len({one.text for one in found}) >= (8 if temperature else 5)


def test_greedy_rows_are_those_of_transformers_generate(tiny):
    who = agent()
    engine = LocalEngine(tiny)
    engine.prepare([who])
    model, encoder = load_model(tiny), Encoder(load_processor(tiny))
    settings = GenerationConfig(
        do_sample=False,
        max_new_tokens=24,
        eos_token_id=encoder.end_of_turn_id,
        pad_token_id=encoder.end_of_turn_id,
    )
    for request, one in zip(requests(), said(engine, who, requests()), strict=True):
        ids = encoder.encode(request.messages, None, []).input_ids[None]
        made = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=settings
        )
        answer = made[0, ids.shape[1] :]
        assert encoder.tokenizer.decode(answer, skip_special_tokens=True) == one.text


def test_neither_order_nor_company_changes_a_row(tiny):
    who = agent(1.0, 0.95)
    engine = LocalEngine(tiny)
    engine.prepare([who])
    asked = requests()
    whole = said(engine, who, asked)
    order = random.Random(0).sample(range(len(asked)), len(asked))
    for part in (order, order[:3], order[3:4]):
        assert said(engine, who, [asked[n] for n in part]) == [whole[n] for n in part]


def test_each_seat_speaks_with_its_own_adapter(tiny, adapter):
    """Switching to an adapter and back leaves the base as it was."""
    bare, adapted = agent(), agent(adapter=adapter)
    engine = LocalEngine(tiny)
    engine.prepare([bare, adapted])
    before, with_it = said(engine, bare, requests()), said(engine, adapted, requests())
    assert before != with_it
    assert said(engine, bare, requests()) == before
    assert engine.collected_with(bare) == "base" and engine.collected_with(adapted) != "base"


def test_what_prompts_begin_with_in_common_is_run_once(tiny):
    encoder = Encoder(load_processor(tiny))
    prompts = [
        tuple(encoder.encode(request.messages, None, []).input_ids.tolist())
        for request in requests()
    ]
    prefill = Prefill(load_model(tiny), "cpu")
    prefill.run(prompts)
    distinct = set(prompts)
    nodes = {prompt[: n + 1] for prompt in distinct for n in range(len(prompt))}
    assert len(nodes) <= prefill.tokens < sum(map(len, distinct)) / 1.5


def test_a_thinking_agents_given_tag_is_its_prefill(tiny, tmp_path):
    """Where the template begins the answer with <think>, that text was given and not generated."""
    folder = shutil.copytree(tiny.path, tmp_path / "thinking")
    template = folder / "chat_template.jinja"
    opening = "{%- if enable_thinking %}{{ '<think>\\n' }}{% endif %}"
    template.write_text(template.read_text() + opening)
    ref = resolve("thinking", None, str(folder), tmp_path / "hashes.parquet")
    plain, thinking = agent(), replace(agent(), decoding=Decoding(0.0, 1.0, 24, thinking=True))
    engine = LocalEngine(ref)
    engine.prepare([plain, thinking])
    before, after = said(engine, plain, requests()), said(engine, thinking, requests())
    assert {one.prefill for one in before} == {""}
    assert {one.prefill for one in after} == {"<think>\n"}
    assert all(one.text.startswith("<think>\n") for one in after)
    assert [one.text.removeprefix("<think>\n") for one in after] != [one.text for one in before]


def test_an_adapter_that_is_deployed_per_node_is_given_by_its_nodes(tiny, adapter, tmp_path):
    """The whole is refused; a node's is held against the base that the whole was trained on."""
    node = shutil.copytree(adapter, tmp_path / "mas" / "nodes" / "planner")
    record = {"key": "k", "deploy": "per-node", "nodes": [{"name": "planner"}], "recipe": {}}
    for base, refused in ((tiny.identity, False), ("0" * 16, True)):
        text = json.dumps({**record, "hashes": {"base": base}})
        (tmp_path / "mas" / "training.json").write_text(text)
        with pytest.raises(UserError, match="deployed per node"):
            LocalEngine(tiny).prepare([agent(adapter=tmp_path / "mas")])
        if refused:
            with pytest.raises(UserError, match="another base"):
                LocalEngine(tiny).prepare([agent(adapter=node)])
        else:
            LocalEngine(tiny).prepare([agent(adapter=node)])
