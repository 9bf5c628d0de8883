"""Final answers are compared with gold ones as a fair reader would."""

import json
from collections import Counter
from pathlib import Path

import pytest

from adaptermill.judges.outcome import Outcome
from tests.judges.building import example
from tests.rows.building import SHARED


def is_right(kind, gold, output):
    said = Outcome(None).verdict(example(output, gold=gold, answer_type=kind))
    assert said.verdict == {1.0: "right", 0.0: "wrong"}[said.reward]
    return bool(said.reward)


@pytest.mark.parametrize(
    ("gold", "output"),
    [
        ("7", "3 + 4 = 7"),
        ("7", "The answer is 7."),
        ("7", "<think>8? No.</think>\\boxed{7}"),
        ("1,000", "1000 dollars"),
        ("0.5", "so it is 1/2"),
        ("1/2", "\\frac12"),
        ("50%", "0.5"),
        ("10^{10}", "10000000000"),
        ("300000000", "$3\\times10^8$"),
        ("2\\sqrt{3}", "\\sqrt{12}"),
        ("x^2+2x+1", "$(x+1)^2$"),
        ("(3,4)", "$(3,4)$"),
        ("$x=5$", "\\boxed{5}"),
        ("-7", "it is $-7$"),
    ],
)
def test_equal_values_are_right_however_written(gold, output):
    assert is_right("math", gold, output)


@pytest.mark.parametrize(
    ("gold", "output"),
    [
        ("7", "8"),
        ("7", "-7"),
        ("7", ""),
        ("7", "seven"),
        ("2", "2\\sqrt{3}"),
        # The question said again is no answer.
        ("7", "3 + 4"),
        ("7", "The answer is (3 + 4)"),
        # An answer that is only thought was not given.
        ("7", "<think>7"),
        ("7", "7 <think> or 8 </think> 8"),
    ],
)
def test_other_values_are_wrong(gold, output):
    assert not is_right("math", gold, output)


@pytest.mark.slow
def test_a_number_that_no_machine_can_hold_ends_in_a_verdict():
    assert not is_right("math", "7", "\\boxed{9^{9^{9^{9^{9}}}}}")


@pytest.mark.parametrize(
    "output",
    ["B", "b", "(B)", "B.", "**B**", "B) Paris", "The answer is B.", "Answer: (b)", "\\boxed{B}",
     "\\boxed{\\text{B}}", "I think A is wrong. The answer is: B", "The right option is B) Paris",
     "A cat is not it, so B"],
)  # fmt: skip
def test_the_letter_of_a_choice_is_found(output):
    assert is_right("choice", "B", output)
    assert not is_right("choice", "C", output)


@pytest.mark.parametrize("output", ["", "none of them", "A dog", "I do not know"])
def test_words_are_no_letters(output):
    for gold in "ABI":
        assert not is_right("choice", gold, output)


def test_exact_answers_are_normalised_and_nothing_more():
    for output in ("paris", ' "Paris". ', "So:\nThe answer is Paris.", "Answer:  PARIS\n"):
        assert is_right("exact", "Paris", output)
    assert is_right("exact", "caf\u00e9 noir", "cafe\u0301   noir")
    for output in ("I say Paris", "Paris, France", "", "Pari"):
        assert not is_right("exact", "Paris", output)


def test_output_of_code_is_compared_line_by_line():
    assert is_right("code_output", "1\n2\n", "1  \n2")
    assert not is_right("code_output", "1\n2", "1 2")


def test_without_a_gold_answer_or_a_way_to_compare_there_is_no_reward():
    judge = Outcome(None)
    assert judge.verdict(example("x")).verdict == "no_gold"
    assert judge.verdict(example("x", gold=" ", answer_type="exact")).verdict == "no_gold"
    unknown = judge.verdict(example("x", gold="x", answer_type="safety"))
    assert (unknown.verdict, unknown.reward) == ("no_comparison", None)
    assert Outcome("exact").verdict(example("x", gold="x", answer_type="safety")).reward == 1


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the recorded rollouts")
@pytest.mark.parametrize(("kind", "share"), [("math", 0.9), ("choice", 0.9), ("exact", 0.75)])
def test_real_weak_rollouts_are_judged_much_as_they_were_recorded(kind, share):
    """The recorded rule takes any quoted piece for an exact answer, so there it is more lenient."""
    judge, agreed = Outcome(None), Counter()
    for line in Path(SHARED, "trajectories", f"{kind}.jsonl").read_text().splitlines():
        rollout = json.loads(line)
        fields = {name: rollout[name] for name in ("gold", "answer_type")}
        reward = judge.verdict(example(rollout["final_text"], **fields)).reward
        agreed[reward == rollout["reward"]] += 1
    assert agreed[True] / agreed.total() >= share
