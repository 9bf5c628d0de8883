"""Objectives on a model: batched as row by row, A frozen, references off the graph."""

import math
from dataclasses import replace

import pytest
import torch
from peft import PeftModel

from adaptermill.models.base import load_model
from adaptermill.training import lora
from adaptermill.training.checkpoint import Refusal
from adaptermill.training.consensus.answers import logps_one_by_one, logps_together
from adaptermill.training.consensus.basis import Basis
from adaptermill.training.consensus.recipe import ConsensusRecipe
from adaptermill.training.references import References
from tests.training.consensus.agents import settings


def moved(basis, seed=0, size=0.05):
    vector = basis.vector()
    return size * torch.randn(vector.shape, generator=torch.Generator().manual_seed(seed))


def test_rows_together_are_what_they_are_alone(agents, tmp_path):
    fitting = agents.fitting(tmp_path)
    basis = fitting.basis
    basis.put(moved(basis))
    answers = [a for node in fitting.nodes for e in node.fitted[:2] for a in e.answers]
    rows = [fitting.answers.encoded(answer) for answer in answers]
    assert len({len(row.input_ids) for row in rows}) > 3
    with torch.no_grad():
        alone = logps_one_by_one(basis.model, rows, fitting.device)
        together = logps_together(basis.model, rows, fitting.device)
    for row, one, other in zip(rows, alone, together, strict=True):
        assert one.shape == row.targets.shape
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("examples", ["dpo", "sft"])
def test_gradients_do_not_depend_on_how_rows_are_put_together(agents, tmp_path, examples):
    fitting = agents.fitting(tmp_path, trajectories={"examples": examples}, batch_examples=6)
    x = moved(fitting.basis)
    told, gradient = fitting.gradient(3, 0, x)
    fitting.together = 1  # an example at a time
    plain_told, plain = fitting.gradient(3, 0, x)
    assert float((gradient - plain).norm() / plain.norm()) < 1e-5
    for name, value in plain_told.items():
        assert told[name] == pytest.approx(value, rel=1e-5)
    assert told["objective"] == pytest.approx(told["loss"] + 0.1 * told["penalty"])
    assert told["penalty"] > 0


def test_the_gradient_is_that_of_the_objective(agents, tmp_path):
    fitting = agents.fitting(tmp_path)
    x = moved(fitting.basis)
    _, gradient = fitting.gradient(2, 1, x)
    step = 1e-2 * gradient / gradient.norm()
    ahead, _ = fitting.gradient(2, 1, x + step)
    behind, _ = fitting.gradient(2, 1, x - step)
    slope = (ahead["objective"] - behind["objective"]) / (2 * float(step.norm()))
    assert slope == pytest.approx(float(gradient.norm()), rel=2e-2)


def test_equal_answers_move_nothing(agents, tmp_path):
    fitting = agents.fitting(tmp_path, beta_kl=0)
    batch = fitting.batches[0]
    equal = [replace(e, rejected=e.chosen) for e in fitting.nodes[0].fitted]
    batch.groups, batch._orders = [equal], {}
    told, gradient = fitting.gradient(0, 0, moved(fitting.basis))
    assert told["objective"] == pytest.approx(math.log(2), abs=1e-7)
    assert gradient.count_nonzero() == 0


def test_at_the_start_the_loss_is_ln_2_and_the_penalty_nothing(agents, tmp_path):
    fitting = agents.fitting(tmp_path)
    told, gradient = fitting.gradient(0, 0, fitting.basis.vector())
    assert told["loss"] == pytest.approx(math.log(2), abs=1e-5)
    assert told["penalty"] <= 1e-10 and gradient.norm() > 0


def test_references_are_computed_once_and_kept(agents, tmp_path):
    fitting = agents.fitting(tmp_path)
    fitting.references = References(tmp_path / "store", {"base": "tiny"})
    x = moved(fitting.basis)
    expected = fitting.gradient(1, 0, x)
    fitting.references.write()
    other = agents.fitting(tmp_path)
    other.references = References(tmp_path / "store", {"base": "tiny"})
    other._reference = None  # would fail if it were called
    told, gradient = other.gradient(1, 0, x)
    assert told == expected[0] and torch.equal(gradient, expected[1])
    assert not any(layer.lora_A["default"].weight.requires_grad for layer in layers(fitting.basis))


def layers(basis):
    return [layer for _, layer in lora.lora_layers(basis.model)]


def test_the_mean_of_b_is_the_mean_of_the_weight_change(agents, tmp_path):
    basis = agents.fitting(tmp_path).basis

    def change(vector):
        basis.put(vector)
        return [layer.get_delta_weight("default").clone() for layer in layers(basis)]

    vectors = [moved(basis, seed) for seed in range(3)]
    changes = [change(vector) for vector in vectors]
    of_mean = change(torch.stack(vectors).mean(0))
    for place, found in enumerate(of_mean):
        mean = torch.stack([each[place] for each in changes]).mean(0)
        torch.testing.assert_close(found, mean, atol=1e-7, rtol=1e-5)


def made(agents, **recipe):
    chosen = ConsensusRecipe.from_settings(settings(**recipe)[1])
    return Basis(load_model(agents.ref), chosen, agents.ref, None)


def test_a_is_drawn_from_the_basis_seed_alone(agents):
    hashes = {
        name: made(agents, **recipe).hash
        for name, recipe in {
            "plain": {},
            "another seed": {"seed": 1},
            "that seed, first basis": {"seed": 1, "basis_seed": 0},
            "another basis": {"basis_seed": 7},
        }.items()
    }
    assert hashes["plain"] == hashes["that seed, first basis"]
    assert len(set(hashes.values())) == 3


def test_only_the_last_layers_are_adapted(agents, tmp_path):
    whole, last = made(agents), made(agents, layers_last=1)
    names = [name for name, _ in lora.lora_layers(last.model)]
    assert names and all(".layers.1." in name for name in names)
    assert len(last.vector()) < len(whole.vector())
    with pytest.raises(Refusal, match="layers_last is 9, and the base has 2 layers"):
        made(agents, layers_last=9)

    vector = moved(last)
    last.save(vector, tmp_path / "adapter")
    loaded = PeftModel.from_pretrained(load_model(agents.ref), str(tmp_path / "adapter"))
    assert [name for name, _ in lora.lora_layers(loaded)] == names
    found = torch.cat(
        [each.lora_B["default"].weight.flatten() for _, each in lora.lora_layers(loaded)]
    )
    assert torch.equal(found, vector)


def test_dropout_is_a_function_of_row_and_step(agents, tmp_path):
    fitting = agents.fitting(tmp_path, dropout=0.2)
    x = moved(fitting.basis)
    told, gradient = fitting.gradient(0, 5, x)
    fitting.gradient(0, 6, x)
    again, same = fitting.gradient(0, 5, x)
    assert told == again and torch.equal(gradient, same)
    without, _ = agents.fitting(tmp_path).gradient(0, 5, x)
    assert told["objective"] != without["objective"]


def test_kl_ref_collect_takes_the_adapter_that_was_begun_with(agents, tmp_path):
    start = made(agents)
    start.save(moved(start), tmp_path / "start")
    frozen = agents.fitting(tmp_path / "f", start=tmp_path / "start")
    collect = agents.fitting(tmp_path / "c", start=tmp_path / "start", kl_ref="collect")
    vector = frozen.basis.vector()
    assert torch.equal(vector, moved(start))  # x starts there
    told, _ = frozen.gradient(0, 0, vector)
    assert told["penalty"] > 1e-6
    told, _ = collect.gradient(0, 0, vector)
    assert told["penalty"] <= 1e-10 and told["loss"] == pytest.approx(math.log(2), abs=1e-5)
    assert collect.basis.relative_change(vector) == pytest.approx(0, abs=1e-9)
