"""Protects what is counted as the action: the free text before it must not decide a match."""

import pytest
import torch

from adaptermill.evaluation.teacher_forced import Scored, figures

MASK = torch.tensor([False, False, True, True])
TARGETS = torch.tensor([5, 6, 7, 8])


@pytest.mark.parametrize(
    ("greedy", "match"),
    [([5, 6, 7, 8], True), ([0, 0, 7, 8], True), ([5, 6, 7, 0], False), ([5, 6, 0, 8], False)],
)
def test_only_the_action_decides_the_greedy_match(greedy, match):
    scored = Scored(torch.tensor([-1.0, -2.0, -3.0, -6.0]), torch.tensor(greedy), TARGETS)
    found = figures(scored, MASK)
    assert found["greedy_match"] is match
    assert (found["nll"], found["nll_sum"], found["nll_action"]) == (3.0, 12.0, 4.5)
    assert (found["target_tokens"], found["action_tokens"]) == (4, 2)
