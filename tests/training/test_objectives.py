"""The losses of a row: values and gradients against golden and worked-out ones."""

from __future__ import annotations

import json
import math

import pytest
import torch

from adaptermill.training.objectives import anchor_penalty, cross_entropy
from adaptermill.training.schedule import multiplier
from tests.training.world import SHARED

GOLDEN = SHARED / "golden" / "webmix.json"
needs_golden = pytest.mark.skipif(not GOLDEN.is_file(), reason="golden values are not here")


def golden(name: str) -> list[dict]:
    return json.loads(GOLDEN.read_text())[name]


@needs_golden
def test_the_penalty_and_its_gradient_have_their_golden_values():
    for case in golden("kl"):
        logps = torch.tensor(case["logp"], dtype=torch.float64, requires_grad=True)
        reference = torch.tensor(case["ref_logp"], dtype=torch.float64)
        mask = torch.tensor(case["mask"], dtype=torch.float64)
        penalty, _ = anchor_penalty(logps, reference, mask)
        penalty.backward()
        assert penalty.item() == pytest.approx(case["kl"], rel=1e-12, abs=1e-15)
        assert logps.grad.tolist() == pytest.approx(case["grad_logp"], rel=1e-12, abs=1e-15)


@needs_golden
def test_the_schedule_has_its_golden_values():
    for case in golden("schedule"):
        steps = case["optimizer_steps"]
        made = [multiplier(step, steps) for step in range(steps)]
        assert made == pytest.approx(case["multiplier"], abs=1e-12)


def test_the_schedule_warms_up_and_falls_to_zero():
    # 100 steps: three of warm-up, then the cosine.
    assert multiplier(0, 100) == pytest.approx(1 / 3)
    assert multiplier(1, 100) == pytest.approx(2 / 3 * 0.5 * (1 + math.cos(math.pi / 100)))
    assert multiplier(50, 100) == pytest.approx(0.5)
    assert multiplier(100, 100) == pytest.approx(0.0, abs=1e-15)
    assert multiplier(0, 1) == 1.0


def test_the_penalty_is_the_mean_over_the_masked_tokens():
    logps = torch.tensor([-1.0, -2.0, -3.0])
    reference = torch.tensor([-1.5, -2.0, -1.0])
    penalty, clamped = anchor_penalty(logps, reference, torch.tensor([True, False, True]))
    wanted = (math.exp(-0.5) + 0.5 - 1 + math.exp(2) - 2 - 1) / 2
    assert penalty.item() == pytest.approx(wanted, rel=1e-6)
    assert clamped.item() == 0


def test_the_penalty_is_zero_without_a_difference_and_never_below():
    logps = -torch.rand(1000)
    mask = torch.ones(1000, dtype=torch.bool)
    assert anchor_penalty(logps, logps, mask)[0].item() == 0.0
    # Rounding of exp(d) - 1 must not show where two paths differ in the last bits only.
    nearly = logps + 1e-6 * torch.randn(1000)
    penalties = torch.stack(
        [anchor_penalty(nearly[i : i + 1], logps[i : i + 1], mask[:1])[0] for i in range(1000)]
    )
    assert penalties.min() >= 0
    assert penalties.max() <= 1e-10


def test_clamped_tokens_are_counted_and_carry_no_gradient():
    logps = torch.tensor([-30.0, -1.0, -0.1, -40.0], requires_grad=True)
    reference = torch.tensor([-1.0, -1.0, -25.0, -1.0])
    mask = torch.tensor([True, True, True, False])
    penalty, clamped = anchor_penalty(logps, reference, mask)
    assert clamped.item() == 2  # +29 and -24.9; the fourth is not in the mask
    assert penalty.item() == pytest.approx((math.expm1(8) - 8 + math.expm1(-20) + 20) / 3)
    penalty.backward()
    assert logps.grad.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_cross_entropy_is_the_mean_of_all_or_of_the_masked_tokens():
    logps = torch.tensor([-1.0, -2.0, -6.0])
    assert cross_entropy(logps).item() == pytest.approx(3.0)
    assert cross_entropy(logps, torch.tensor([False, True, True])).item() == pytest.approx(4.0)
