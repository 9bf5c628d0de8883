"""What makes a judge another judge, and an example another example; and what does not."""

import pytest

from adaptermill.errors import UserError
from adaptermill.judges.identity import fingerprint, judged_hash
from adaptermill.provenance import code_parts
from tests.judges.building import example, settings_of
from tests.judges.world import REPOSITORY

LLM = {"kind": "llm", "model": "m", "template": "harmbench", "good": "no"}


def configured(**changes):
    return settings_of({**LLM, **changes})["configured"]


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "n"},
        {"revision": "2"},
        {"template": None, "prompt": "{{ output }}"},
        {"template": "helpful"},
        {"system": "You judge."},
        {"good": "yes"},
        {"answer": "score", "good": None},
        {"temperature": 0.5},
        {"max_tokens": 5},
        {"seed": 1},
        {"extra": {"top_k": 1}},
    ],
)
def test_what_is_asked_and_how_it_is_read_makes_another_judge(changes):
    changed = {name: value for name, value in {**LLM, **changes}.items() if value is not None}
    assert settings_of(changed)["configured"] != configured()


def test_how_requests_travel_does_not():
    endpoint = {"base_url": "http://elsewhere/v1", "in_flight": 99, "attempts": 1, "timeout": 5}
    same = configured(
        endpoint={**endpoint, "key_variable": "X", "price": {"input": 1, "output": 2}}
    )
    assert same == configured()
    assert configured(temperature=0.0) == configured(max_tokens=256) == configured()


def test_code_and_the_text_of_a_template_count_not_its_place(tmp_path):
    texts = {}
    for name, text in (("a", "{{ output }}"), ("b", "{{ output }}"), ("c", "{{ output }}!")):
        (tmp_path / name).write_text(text)
        judge = (
            {"kind": "llm", "model": "m", "prompt": text}
            if name == "b"
            else {**{"kind": "llm", "model": "m"}, "template": str(tmp_path / name)}
        )
        texts[name] = settings_of(judge)["configured"]
    assert texts["a"] == texts["b"] != texts["c"]
    assert settings_of(LLM, code="other")["configured"] != configured()


def test_transport_and_storage_are_no_part_of_a_paid_judges_code():
    parts = set(code_parts(REPOSITORY / "adaptermill/judges/llm.py"))
    assert {"judges/llm.py", "judges/template.py", "judges/answer_rules.py"} <= parts
    assert not parts & {"judges/endpoint.py", "judges/store.py", "judges/run.py"}


def test_the_model_that_runs_here_is_part_of_the_fingerprint():
    assert len({fingerprint("c", None), fingerprint("c", "m"), fingerprint("d", "m")}) == 3
    local = {"kind": "llm", "provider": "local", "prompt": "{{ output }}"}
    here, there = (settings_of({**local, "model": name}) for name in ("a/b", "c/d"))
    assert here["configured"] == there["configured"], "its files decide, wherever they lie"


def test_only_what_a_judge_reads_makes_another_example():
    one, other = example(gold="4"), example(gold="5", success=True)
    assert judged_hash(one, ()) == judged_hash(other, ())
    assert judged_hash(one, ("gold",)) != judged_hash(other, ("gold",))
    assert judged_hash(one, ()) != judged_hash(example("5", gold="4"), ())


def test_the_model_may_come_from_the_environment(monkeypatch):
    without = {"kind": "llm", "template": "harmbench", "good": "no"}
    monkeypatch.delenv("OPENAI_MODEL", raising=False)
    with pytest.raises(UserError, match="OPENAI_MODEL"):
        settings_of(without)
    monkeypatch.setenv("OPENAI_MODEL", "m")
    assert settings_of(without)["configured"] == configured()
