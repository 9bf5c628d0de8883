"""scripts/judge.py on real rows: what is asked, asked again, and what fit sets make of it."""

import json
import os
import signal
import subprocess

import pytest

from adaptermill.errors import EXIT_USER_ERROR, UserError
from tests.judges.serving import KEY, Proxy, saying
from tests.judges.world import World

NAMES = [f"e{number}" for number in range(12)]
LLM = {
    **{"kind": "llm", "model": "m", "prompt": "{{ query }}: {{ output }}? yes or no"},
    "answer": "yes_no",
}
ENDPOINT = {
    **{"base_url_variable": "OPENAI_BASE_URL", "key_variable": "JUDGE_KEY", "in_flight": 2},
    **{"timeout": 60, "attempts": 2, "price": {"input": 1.0, "output": 2.0}},
}


@pytest.fixture
def world(tmp_path) -> World:
    world = World(tmp_path)
    world.episodes(NAMES)
    world.index()
    return world


def test_the_rows_that_a_fit_set_could_use_are_judged_and_no_others(world):
    world.episodes(["other"], op="fly")
    world.configure({"kind": "episode_success"})
    made = world.judge()
    rows = {line["row_id"] for line in world.lines()}
    kept = world.fitset()["kept"]
    assert made["examples"] == len(rows) == kept["ce"]
    held_out = {line["row_id"] for line in world.table("dropped") if line["stage"] == "split"}
    assert held_out and not held_out & rows


def test_ten_more_rows_are_ten_more_verdicts(world, capsys):
    world.configure({"kind": "recorded"})
    first = world.judge()
    assert f"{first['examples']} judged" in capsys.readouterr().out
    assert world.judge() == first
    assert "0 judged" in capsys.readouterr().out
    world.episodes(["f0"], steps=10)
    world.index()
    second = world.judge()
    assert second["examples"] == first["examples"] + 10
    assert "10 judged" in capsys.readouterr().out


def test_rejected_rows_are_dropped_with_their_reason_and_kept_ones_carry_the_verdict(world):
    world.episodes(["bad"], described={"task_id": "bad", "success": False})
    world.episodes(["open"], described={"task_id": "open"})
    world.index()
    world.configure({"kind": "recorded"})
    made = world.judge()
    assert made["verdicts"].keys() == {"success", "failure", "not_recorded"}
    composition = world.fitset()
    dropped = [line for line in world.table("dropped") if line["stage"] == "judge"]
    by_reason = {
        reason: {line["row_id"] for line in dropped if line["reason"] == reason}
        for reason in ("judge_rejected", "judge_silent")
    }
    assert by_reason["judge_rejected"] == {f"main/bad/{step}" for step in range(4)}
    assert by_reason["judge_silent"] == {f"main/open/{step}" for step in range(4)}
    assert {line["detail"] for line in dropped if "bad" in line["row_id"]} == {"failure (reward 0)"}
    for line in world.table("fitset"):
        assert (line["reward"], line["judge"]) == (1.0, made["fingerprint"])
    assert composition["judge"] == {
        "fingerprint": made["fingerprint"],
        "kept": {"success": composition["kept"]["ce"]},
        "mean_reward": 1.0,
    }
    assert composition["input"] == sum(
        [*composition["kept"].values(), *composition["dropped"].values()]
    )
    assert composition["dropped"]["judge_rejected"] == 4


def test_a_threshold_decides_what_is_rejected(world):
    for number in range(4):
        world.episodes([f"r{number}"], steps=1, reward=number / 4)
    world.index()
    for threshold, kept in ((0.0, 4), (0.5, 2), (0.75, 1)):
        world.configure({"kind": "recorded"}, judge_threshold=threshold)
        world.judge()
        world.fitset()
        rewards = sorted(line["reward"] for line in world.table("fitset"))
        assert sum(reward < 1 for reward in rewards) == kept


def test_missing_verdicts_and_those_of_another_judge_are_refused_with_the_way_out(world):
    way_out = "results/judged/j.parquet"
    world.configure({"kind": "recorded"})
    for judged in (False, True):
        with pytest.raises(UserError, match=way_out):
            world.fitset(judged=judged)
    world.judge()
    world.configure({"kind": "recorded", "low": -1})
    with pytest.raises(UserError, match=f"other settings(?s:.)*{way_out}"):
        world.fitset()
    world.judge()
    world.episodes(["later"])
    world.index()
    with pytest.raises(UserError, match=f"4 of .* no verdict(?s:.)*main/later/0(?s:.)*{way_out}"):
        world.fitset()


def test_a_row_that_changed_is_judged_anew(world):
    world.configure({"kind": "action_format", "actions": ["click"]})
    world.judge()
    before = {line["row_id"]: line for line in world.lines()}
    name = min(before).split("/")[1]
    path = world.raw / name / "rows.jsonl"
    path.write_text(path.read_text().replace("index", "Index"))
    world.index()
    world.judge()
    after = {line["row_id"]: line for line in world.lines()}
    changed = {row_id for row_id in after if after[row_id] != before[row_id]}
    assert changed == {f"main/{name}/{step}" for step in range(4)}
    assert len(after) == len(before)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ended_in_the_middle_it_goes_on_and_pays_nothing_twice(world, number):
    """After a kill at most the requests under way are lost; after a gentle end not even those."""
    world.configure(LLM)
    running: list[subprocess.Popen] = []

    def fault(prompt, _):
        if proxy.answered.total() >= 9 and running:
            os.kill(running.pop().pid, number)
            # The answer comes when the signal has been seen.
            proxy.closing.wait(0.5)
        return saying("yes")

    proxy = Proxy("", fault)
    environment = {**os.environ, "JUDGE_KEY": KEY}
    with proxy.open() as address:
        command = world.command(**ENDPOINT, base_url=address)
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            running.append(process)
            said = process.communicate()[0]
        assert process.returncode == (-9 if number == signal.SIGKILL else EXIT_USER_ERROR), said
        (journal,) = world.store.glob("*/verdicts.jsonl")
        kept = journal.read_bytes().count(b"\n")
        asked, answered = proxy.asked.total(), proxy.answered.total()
        assert 7 <= kept <= answered < 36
        if number != signal.SIGKILL:
            assert kept == asked == answered, "what was under way is waited for"
            assert "asks only for what is missing" in said
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        examples = json.loads((world.folder / "j.json").read_text())["examples"]
        assert proxy.asked.total() - asked == examples - kept
        assert max(proxy.asked.values()) <= (2 if number == signal.SIGKILL else 1)
    assert f"{examples - kept} judged in" in done.stdout
    assert "currency" in done.stdout and "prompt and" in done.stdout
    for text in (said, done.stdout, done.stderr, *(p.read_bytes() for p in world.files())):
        assert (KEY if isinstance(text, str) else KEY.encode()) not in text


def test_no_address_is_said_before_anything_is_asked(world, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    world.configure(LLM)
    with pytest.raises(UserError, match="OPENAI_BASE_URL"):
        world.judge(**ENDPOINT, base_url=None)
