import math

import pytest
import torch

from adaptermill.training.consensus.objectives import dpo, example_loss
from tests.consensus.quadratics import GOLDEN, golden


@pytest.mark.skipif(not GOLDEN.is_file(), reason="the golden values are not here")
def test_dpo_is_the_golden_one():
    for case in golden()["dpo"]:
        names = ("chosen", "rejected", "ref_chosen", "ref_rejected")
        values = [
            torch.tensor(case[name], dtype=torch.float64, requires_grad=True) for name in names
        ]
        loss = dpo(*values, case["beta"])
        loss.backward()
        assert loss.item() == pytest.approx(case["loss"], abs=1e-12)
        assert values[0].grad.item() == pytest.approx(case["grad_chosen"], abs=1e-12)
        assert values[1].grad.item() == pytest.approx(case["grad_rejected"], abs=1e-12)


def drawn(count, seed):
    return -torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_equal_answers_give_ln_2_and_no_gradient():
    logps = drawn(7, 0).requires_grad_()
    reference = drawn(7, 1)
    loss, own, penalty = example_loss(logps, logps, reference, reference, 0.1, 0.0)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2)) and loss == own and penalty == 0
    assert logps.grad.count_nonzero() == 0


def test_answers_count_by_the_sum_of_their_tokens_not_by_the_mean():
    chosen, rejected = drawn(4, 0), drawn(9, 1)
    references = (drawn(4, 2), drawn(9, 3))
    loss, _, _ = example_loss(chosen, rejected, *references, 0.1, 0.0)
    margin = chosen.sum() - references[0].sum() - rejected.sum() + references[1].sum()
    assert loss.item() == pytest.approx(math.log1p(math.exp(-0.1 * margin)))
    twice = [torch.cat([each, each]) for each in (chosen, rejected, *references)]
    doubled, _, _ = example_loss(*twice, 0.1, 0.0)
    assert doubled.item() == pytest.approx(math.log1p(math.exp(-0.2 * margin)))


def test_the_penalty_is_on_the_chosen_answer_alone():
    chosen, rejected, reference = drawn(4, 0), drawn(9, 1), drawn(4, 2)
    loss, own, penalty = example_loss(chosen, rejected, reference, drawn(9, 3), 0.1, 0.5)
    away = reference - chosen
    assert penalty.item() == pytest.approx((away.exp() - away - 1).mean().item())
    assert loss.item() == pytest.approx((own + 0.5 * penalty).item())


def test_messages_count_by_their_mean():
    chosen, reference = drawn(4, 0), drawn(4, 2)
    loss, own, penalty = example_loss(chosen, None, reference, None, 0.1, 0.1)
    assert own.item() == pytest.approx(-chosen.mean().item())
    assert loss.item() == pytest.approx((own + 0.1 * penalty).item()) and penalty > 0
    alone, _, _ = example_loss(chosen, None, None, None, 0.1, 0.0)
    assert alone == own
