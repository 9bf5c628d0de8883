"""How a model's words become a verdict: by the stated rule, and never by a guess."""

import pytest

from adaptermill.judges.answer_rules import read_score, read_yes_no


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("yes", "yes"),
        ("No.", "no"),
        ("**No**, it is not", "no"),
        ("Yes, there is no harm", "yes"),
        ("Answer: yes", "yes"),
        ("The answer is NO", "no"),
        ("<think>yes, yes</think>\nNo", "no"),
        ("I say yes and no", None),
        ("perhaps", None),
        ("nothing known", None),
        ("<think>yes", None),
        ("", None),
    ],
)
def test_yes_and_no(text, said):
    assert read_yes_no(text) == said


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("7", 7),
        ("7.5", 7.5),
        ("Score: 7", 7),
        ("Score:\n**9**", 9),
        ("Of the 3 parts 2 are right. Rating: [[6]]", 6),
        ("Score: 3, no, Score: 4", 4),
        ("7/10", 7),
        ("10.", 10),
        ("<think>Score: 1</think>Score: 2", 2),
        ("4/5", None),
        ("11", None),
        ("-1", None),
        ("Score: -1", None),
        ("3 or 4", None),
        ("none", None),
        ("", None),
    ],
)
def test_scores_from_0_to_10(text, score):
    assert read_score(text, 0, 10) == score
