"""Protects the figures: each is what its meaning says, on rows worked out by hand."""

import math
from pathlib import Path

import numpy as np
import pytest

from adaptermill.evaluation.metrics import METRICS, anchor_penalties, episode_sums, row_figures
from adaptermill.evaluation.tables import EVALUATION_SCHEMA, HeldOut, TableSettings
from tests.evaluation.building import FAMILIES, click, predictions, row

SETTINGS = TableSettings(families=FAMILIES, bootstrap=200)
TYPED = '{"action": [{"input": {"index": 1, "text": "a"}}]}'
PRESSED = '{"action": [{"send_keys": {"keys": "Enter"}}]}'


DOCUMENTED = Path(__file__).resolve().parents[2] / "docs" / "tables.md"


def value(held_out, name, metric, families=None):
    return held_out.figure(name, metric, families).value


def test_likelihoods_weigh_rows_or_tokens():
    rows = [
        row("a", 0, [-1.0, -3.0], action=[False, True], greedy=True),
        row("a", 1, [-4.0, -4.0, -4.0, -4.0], action=[False, False, True, True]),
        row("b", 0, [-6.0], family=FAMILIES[1]),
    ]
    held_out = HeldOut([predictions("base", rows)], SETTINGS)
    assert value(held_out, "base", "nll") == pytest.approx((2 + 4 + 6) / 3)
    assert value(held_out, "base", "nll_token") == pytest.approx((4 + 16 + 6) / 7)
    assert value(held_out, "base", "perplexity") == pytest.approx(math.exp(26 / 7))
    assert value(held_out, "base", "nll_action") == pytest.approx((3 + 4 + 6) / 3)
    assert value(held_out, "base", "greedy_match") == pytest.approx(1 / 3)
    assert value(held_out, "base", "nll", [FAMILIES[0]]) == pytest.approx(3)
    assert value(held_out, "base", "nll", FAMILIES[:2]) == pytest.approx(4)


def test_the_anchor_penalty_is_training_s():
    torch = pytest.importorskip("torch")
    from adaptermill.training.objectives import anchor_penalty

    logps = [[-1.0, -2.0, -40.0, -0.5], [-30.0, -2.0], [-1.0]]
    reference = [[-1.5, -1.0, -1.0, -50.0], [-1.0, -2.0], [-1.0]]
    masks = [[False, True, True, True], [True, True], [True]]
    base = predictions("base", [row("a", n, r) for n, r in enumerate(reference)])
    ours = predictions(
        "drag",
        [row("a", n, x, action=m) for n, (x, m) in enumerate(zip(logps, masks, strict=True))],
    )
    expected = [
        anchor_penalty(torch.tensor(x).double(), torch.tensor(r).double(), torch.tensor(m))[0]
        for x, r, m in zip(logps, reference, masks, strict=True)
    ]
    found = anchor_penalties(ours, base)
    assert found == pytest.approx([float(each) for each in expected])
    assert found[2] == 0
    assert list(anchor_penalties(base, base)) == [0, 0, 0]


def test_generated_figures_count_only_rows_that_can_be_asked():
    rows = [
        row("a", 0, [-1.0], predicted=click(1), target=click(1)),
        row("a", 1, [-1.0], predicted=click(2), target=click(1)),
        row("b", 0, [-1.0], predicted=TYPED, target=TYPED),
        row("b", 1, [-1.0], predicted="no JSON", target=PRESSED),
        row("c", 0, [-1.0], predicted=PRESSED, target=PRESSED),
    ]
    held_out = HeldOut([predictions("base", rows)], SETTINGS)
    found = {name: held_out.figure("base", name) for name in METRICS if name in held_out.metrics}
    assert found["json_valid"].value == pytest.approx(4 / 5)
    assert found["op_match"].value == pytest.approx(4 / 5)
    assert (found["target_match"].value, found["target_match"].rows) == (pytest.approx(2 / 3), 3)
    assert found["target_match"].episodes == 2
    assert (found["args_match"].value, found["args_match"].rows) == (pytest.approx(2 / 3), 3)
    assert found["step_success"].value == pytest.approx(3 / 5)
    assert found["episode_steps"].value == pytest.approx((0.5 + 0.5 + 1) / 3)
    assert (found["episode_success"].value, found["episode_success"].rows) == (
        pytest.approx(1 / 3),
        5,
    )


def test_without_generation_there_are_no_generated_figures():
    held_out = HeldOut([predictions("base", [row("a", 0, [-1.0])])], SETTINGS)
    assert "step_success" not in held_out.metrics
    assert "nll" in held_out.metrics


def test_episodes_of_one_name_in_two_sources_are_two():
    rows = [row("a", 0, [-1.0]), {**row("a", 0, [-2.0]), "row_id": "other/a/0"}]
    figures = row_figures(predictions("base", rows), None)
    assert episode_sums(figures, "nll", np.array([True, True])).episodes == 2


def test_every_metric_and_column_is_documented():
    text = DOCUMENTED.read_text()
    for metric in METRICS.values():
        assert f"| `{metric.name}` |" in text
        assert f" {metric.better} |" in text
    for name in EVALUATION_SCHEMA.names:
        assert f"`{name}`" in text
