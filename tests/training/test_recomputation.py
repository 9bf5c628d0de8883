"""Computing activations again in the backward pass saves memory and changes no bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from adaptermill.training.loop import Shortcuts
from tests.training.world import World, difference, lines, shake


@pytest.mark.parametrize("share_prefix", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_losses_and_gradients_are_the_same(world, tmp_path: Path, dropout: float, share_prefix):
    made = []
    for budget in (None, 1):
        shortcuts = Shortcuts(share_prefix=share_prefix, token_budget=budget)
        trainer = world.trainer(
            tmp_path, lines(6), batch_rows=6, dropout=dropout, shortcuts=shortcuts
        )
        shake(trainer.model)
        base = trainer.model.get_base_model()
        runs: list[bool] = []
        base.get_decoder().layers[1].self_attn.register_forward_hook(
            lambda module, inputs, output, runs=runs: runs.append(output[0].requires_grad)
        )
        sums = trainer.accumulate(trainer.batches[0])
        # Six rows, perhaps a prefix; two are anchor rows, with a forward of the reference each.
        again = budget is not None
        assert (runs.count(True), runs.count(False)) == ((6 + share_prefix) * (1 + again), 2)
        made.append([sums, *(parameter.grad for parameter in trainer.parameters)])
        assert not any(module.training for module in base.modules())
    assert all(one.equal(other) for one, other in zip(*made, strict=True))


def test_the_budget_decides_by_the_longest_row(world: World, tmp_path: Path):
    plan = lines(6)
    longest = max(len(world.examples.tokens(line.row_id).input_ids) for line in plan)
    for budget, recomputes in ((longest, False), (longest - 1, True)):
        shortcuts = Shortcuts(token_budget=budget)
        trainer = world.trainer(tmp_path, plan, batch_rows=6, shortcuts=shortcuts)
        trainer.accumulate(trainer.batches[0])
        assert trainer.recomputation.on == recomputes


def test_a_run_ends_with_the_same_adapter(world: World, tmp_path: Path):
    jobs = [
        world.job(tmp_path / str(len(options)), lines(7), *options, dropout=0.05)
        for options in ([], ["--token-budget", "1"])
    ]
    assert [job.run() for job in jobs] == [0, 0]
    assert difference(jobs[0].tensors, jobs[1].tensors) == 0
