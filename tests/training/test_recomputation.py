"""Computing activations again in the backward pass saves memory and changes nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from adaptermill.training.recomputation import recompute_layers
from tests.training.world import World, difference, lines, shake


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_losses_and_gradients_are_the_same(world: World, tmp_path: Path, dropout: float):
    made = []
    for again in (False, True):
        trainer = world.trainer(tmp_path, lines(6), batch_rows=6, dropout=dropout)
        shake(trainer.model)
        base = trainer.model.get_base_model()
        runs: list[bool] = []
        base.get_decoder().layers[1].self_attn.register_forward_hook(
            lambda module, inputs, output, runs=runs: runs.append(output[0].requires_grad)
        )
        if again:
            assert recompute_layers(base) == 2
        sums, _ = trainer.accumulate(trainer.batches[0])
        # Two of the six rows are anchor rows, with a forward of the reference each.
        assert (runs.count(True), runs.count(False)) == (6 + 6 * again, 2)
        made.append([sums, *(parameter.grad for parameter in trainer.parameters)])
        assert not any(module.training for module in base.modules())
    assert all(one.equal(other) for one, other in zip(*made, strict=True))


def test_a_run_ends_with_the_same_adapter(world: World, tmp_path: Path):
    jobs = [
        world.job(tmp_path / str(len(options)), lines(7), *options, dropout=0.05)
        for options in ([], ["--recompute"])
    ]
    assert [job.run() for job in jobs] == [0, 0]
    assert difference(jobs[0].tensors, jobs[1].tensors) == 0
