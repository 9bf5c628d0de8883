"""Rollouts through a real server of a real small model, with faults on the way."""

from __future__ import annotations

import json

import pytest

from adaptermill.errors import UserError
from scripts import rollout
from tests.judges.serving import BUSY, TOO_LONG, Proxy, free_port, needs_server, saying
from tests.rollouts.conftest import ARITHMETIC, write_queries

DENIED = (401, {}, b'{"error": {"message": "wrong key"}}')
GONE = (404, {}, b'{"error": {"message": "the model nobody does not exist"}}')
PROBES = 2


def arguments(url, model, tmp_path, *more, queries=3):
    tmp_path.mkdir(exist_ok=True)
    path = write_queries(tmp_path / "queries.jsonl", ARITHMETIC[:queries])
    given = ["--queries", path, "--output", tmp_path / "run", "--base-url", url, "--model", model]
    few = ["--rollouts", 2, "--max-new-tokens", 5, "--roles", "planner,judger", "--attempts", 3]
    return [str(part) for part in [*given, *few, *more]]


@needs_server
@pytest.mark.slow
def test_an_ended_run_pays_only_for_what_is_missing(server, tmp_path):
    """Passing faults are asked again; a wrong key ends the run; what was answered is kept."""
    url, model = server
    busy, late = Proxy(url, lambda prompt, number: BUSY if number == 0 else None), []

    def denied(prompt, number):
        late.append(prompt)
        return DENIED if len(late) > PROBES + 3 else None

    broken = Proxy(url, denied)
    with broken.open() as address, pytest.raises(UserError, match="wrong key"):
        rollout.main(arguments(address, model, tmp_path, "--in-flight", 1))
    kept = sum(broken.answered.values()) - PROBES
    assert kept == 3 and not (tmp_path / "run" / "rollouts.jsonl").exists()
    with busy.open() as address:
        rollout.main(arguments(address, model, tmp_path))
    made = (tmp_path / "run" / "rollouts.jsonl").read_text().splitlines()
    assert len(made) == 6
    assert sum(busy.answered.values()) - PROBES == 6 * 2 - kept
    for line in map(json.loads, made):
        assert [one["role"] for one in line["messages_by_agent"]] == ["planner", "judger"]
        assert all(one["output"] for one in line["messages_by_agent"])


@needs_server
@pytest.mark.slow
def test_each_request_has_the_seed_of_its_message_and_its_seats_model(server, tmp_path):
    """Whether the server honours seeds is found out by asking it, and stands in the summary."""
    url, model = server
    bodies = []

    class Listening(Proxy):
        def _upstream(self, data):
            bodies.append(json.loads(data))
            # An adapter's name, as a server that knows it would take it.
            return super()._upstream(json.dumps({**bodies[-1], "model": model}).encode())

    proxy = Listening(url, lambda *_: None)
    with proxy.open() as address:
        asked = ["--adapter", "judger=math-lora", "--last-max-new-tokens", 3, "--top-p", 0.7]
        rollout.main(arguments(address, model, tmp_path, *asked, queries=1))
    made = [json.loads(x) for x in (tmp_path / "run" / "rollouts.jsonl").read_text().splitlines()]
    said = [one for line in made for one in line["messages_by_agent"]]
    sent = {(body["model"], body["seed"], body["max_tokens"]) for body in bodies[2 * PROBES :]}
    assert sent == {
        (model, one["seed"], 5) if one["agent"] == 0 else ("math-lora", one["seed"], 3)
        for one in said
    }
    assert all(body["top_p"] == 0.7 for body in bodies[2 * PROBES :])
    assert {one["collected_with"] for one in said} == {"base", "math-lora"}
    assert [body["model"] for body in bodies[: 2 * PROBES]] == [model, model, *["math-lora"] * 2]


def test_a_server_that_does_not_honour_seeds_is_noted(tmp_path):
    """It answers the same request, seed and all, with another text."""
    answered = []

    def drift(prompt, number):
        answered.append(prompt)
        return saying(f"word {len(answered)}")

    with Proxy("http://127.0.0.1:1/v1", drift).open() as address:
        rollout.main(arguments(address, "m", tmp_path, queries=1))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert len(summary["notes"]) == 1 and "does not honour `seed` (m)" in summary["notes"][0]
    steady = Proxy("http://127.0.0.1:1/v1", lambda *_: saying("always this"))
    with steady.open() as address:
        rollout.main(arguments(address, "n", tmp_path / "other", queries=1))
    assert json.loads((tmp_path / "other" / "run" / "summary.json").read_text())["notes"] == []


def test_what_the_server_does_not_take_is_counted_and_no_trajectory(tmp_path):
    """A rollout whose agent was refused ends there; its later agents are not asked."""
    asked = []

    def picky(prompt, number):
        asked.append(prompt)
        return TOO_LONG if "What is 3" in prompt else saying("5")

    with Proxy("http://127.0.0.1:1/v1", picky).open() as address:
        rollout.main(arguments(address, "m", tmp_path))
    counts = json.loads((tmp_path / "run" / "summary.json").read_text())["counts"]
    assert counts["faults"] == 2 and counts["rollouts"] == 4
    assert sum("What is 3" in prompt for prompt in asked) == 2


@pytest.mark.slow
def test_an_endpoint_that_is_down_is_said_before_anything_is_rolled_out(tmp_path):
    url = f"http://127.0.0.1:{free_port()}/v1"
    with pytest.raises(UserError, match=r"nothing was rolled out.*Connection(?s:.*)Start the"):
        rollout.main(arguments(url, "m", tmp_path, "--attempts", 1))
    assert not (tmp_path / "run").exists()


def test_a_model_that_the_server_does_not_know_is_said_before_anything_is_rolled_out(tmp_path):
    with (
        Proxy("http://127.0.0.1:1/v1", lambda *_: GONE).open() as address,
        pytest.raises(UserError, match=r"the model nobody does not exist"),
    ):
        rollout.main(arguments(address, "nobody", tmp_path))
    assert not (tmp_path / "run").exists()
