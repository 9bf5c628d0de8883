"""The example rollouts: seeded, any number, right and wrong ones, and true about themselves."""

import json
from collections import Counter

import pytest

from adaptermill.errors import UserError
from adaptermill.example.arithmetic import ROLES, draw_rollout, draw_rollouts, question
from adaptermill.rows.readers.trajectories import messages_of
from scripts import example_trajectories


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_no_two_queries_are_the_same(seed):
    drawn = [question(seed, number) for number in range(20_000)]
    assert len({name for name, _, _ in drawn}) == len({text for _, text, _ in drawn}) == 20_000


def test_answers_are_right():
    for number in range(0, 20_000, 37):
        _, text, answer = question(0, number)
        term = text.removeprefix("What is ").removesuffix("?")
        first, *rest = term.split()
        value = int(first)
        for sign, operand in zip(rest[::2], map(int, rest[1::2]), strict=True):
            value = {"+": value + operand, "-": value - operand, "*": value * operand}[sign]
        assert value == answer


def test_rewards_say_whether_the_judger_is_right():
    lines = list(draw_rollouts(0, 100, 4))
    for line in lines:
        said = line["final_text"].removeprefix("The answer is ").removesuffix(".")
        assert line["reward"] == float(said == line["gold"])
        assert line["final_text"] == line["messages_by_agent"][-1]["output"]
        assert [message["role"] for message in line["messages_by_agent"]] == list(ROLES)
        assert len(messages_of(line)) == 4
    share = sum(line["reward"] for line in lines) / len(lines)
    assert 0.3 < share < 0.7
    rates = Counter()
    for start in range(0, len(lines), 4):
        rates[sum(line["reward"] for line in lines[start : start + 4])] += 1
    assert set(rates) == {0, 1, 2, 3, 4}


def test_each_agent_sees_what_was_said_before():
    for line in draw_rollouts(3, 20, 2):
        said = []
        for message in line["messages_by_agent"]:
            assert message["prompt"][-1]["content"] == "\n".join([*said, line["query"]])
            said.append(f"{message['role'].capitalize()}: {message['output']}")


def test_some_refiners_think_some_are_cut_and_some_were_begun():
    kinds = Counter()
    for line in draw_rollouts(0, 100, 4):
        refiner = line["messages_by_agent"][2]
        closed = "</think>" in refiner["output"]
        kinds["thinks"] += closed
        kinds["cut"] += "<think>" in refiner["output"] and not closed
        kinds["given"] += "prefill" in refiner
        assert refiner["output"].startswith(refiner.get("prefill", ""))
    assert kinds["thinks"] > kinds["given"] > 50 and 20 < kinds["cut"] < 80


def test_good_plans_make_right_answers_likelier():
    rates = {True: [], False: []}
    for line in draw_rollouts(0, 300, 4):
        plan = line["messages_by_agent"][0]["output"]
        rates["tens" in plan or "Split" in plan].append(line["reward"])
    good, poor = (sum(rates[kind]) / len(rates[kind]) for kind in (True, False))
    assert good > 1.5 * poor


def test_the_same_seed_gives_the_same_and_larger_numbers_only_add(tmp_path):
    def written(folder, *arguments):
        example_trajectories.main(["--output", str(tmp_path / folder), *arguments])
        (path,) = (tmp_path / folder).glob("*/*.jsonl")
        return path.read_text(encoding="utf-8").splitlines()

    small = written("a", "--queries", "5", "--rollouts", "2")
    assert written("b", "--queries", "5", "--rollouts", "2") == small
    assert set(small) < set(written("c", "--queries", "9", "--rollouts", "3"))
    assert [json.loads(line) for line in small] == list(draw_rollouts(0, 5, 2))
    # Another seed in the same folder takes the place of the first.
    other = written("a", "--queries", "5", "--rollouts", "2", "--seed", "1")
    assert not set(other) & set(small)
    with pytest.raises(UserError, match="at least 1"):
        written("d", "--queries", "0")


def test_a_rollout_is_a_function_of_its_numbers():
    assert draw_rollout(1, 2, 3) == draw_rollout(1, 2, 3) != draw_rollout(1, 2, 4)
