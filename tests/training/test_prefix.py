"""The common prefix run once gives the losses and gradients of whole rows, at any dropout."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from adaptermill.example.architecture import Sizes
from adaptermill.training.loop import Shortcuts, Trainer
from tests.tiny_base import make_tiny_base
from tests.training.world import World, lines, shake

WHOLE, SHARED = Shortcuts(share_prefix=False), Shortcuts()


@pytest.fixture(scope="module")
def deep(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A base with linear attention below, between and above attention."""
    folder = tmp_path_factory.mktemp("deep")
    kinds = ("linear_attention", "linear_attention", "full_attention", "linear_attention")
    sizes = Sizes(
        hidden=32,
        intermediate=48,
        layers=(*kinds, "full_attention"),
        heads=2,
        head_dim=16,
        vision_hidden=32,
        vision_depth=1,
        vocabulary=400,
    )
    return World(folder, make_tiny_base(folder / "base", sizes=sizes), world.ingested)


def results(trainer: Trainer) -> tuple[torch.Tensor, list[torch.Tensor]]:
    shake(trainer.model)
    sums = trainer.accumulate(trainer.batches[0])
    return sums, [parameter.grad.clone() for parameter in trainer.parameters]


def distance(made: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    """||made - wanted|| / ||wanted|| over all tensors together."""
    made_flat, wanted_flat = (
        torch.cat([g.flatten().double() for g in each]) for each in (made, wanted)
    )
    return float((made_flat - wanted_flat).norm() / wanted_flat.norm())


@pytest.mark.parametrize("dropout", [0.0, 0.05])
@pytest.mark.parametrize("targets", ["attn_mlp", "attn_qv"])
@pytest.mark.parametrize("base", ["world", "deep"])
def test_losses_and_gradients_are_those_of_whole_rows(
    request: pytest.FixtureRequest, tmp_path: Path, base: str, targets: str, dropout: float
):
    """Twelve rows with screenshots of two sizes and without, a third of them anchor rows."""
    where: World = request.getfixturevalue(base)
    made = []
    for shortcuts in (WHOLE, SHARED):
        trainer = where.trainer(
            tmp_path,
            lines(12),
            batch_rows=12,
            dropout=dropout,
            lora_targets=targets,
            shortcuts=shortcuts,
        )
        shares = trainer.shares(trainer.batches[0])
        assert shares.prefix > 10
        assert shares.saved == shares.prefix * 11 * shortcuts.share_prefix
        made.append(results(trainer))
    (whole_sums, whole), (shared_sums, shared) = made
    assert torch.allclose(shared_sums, whole_sums, rtol=1e-5, atol=1e-6)
    found = distance(shared, whole)
    assert found <= 1e-5


def test_in_bfloat16_the_two_agree_as_far_as_it_goes(world: World, tmp_path: Path):
    whole, shared = (
        world.job(tmp_path / str(len(options)), lines(12), *options, batch_rows=12)
        for options in (["--dtype", "bfloat16", "--whole-rows"], ["--dtype", "bfloat16"])
    )
    for job in (whole, shared):
        assert job.run() == 0
        assert job.record["telemetry"]["dtype"] == "bfloat16"
    assert (whole.log[0]["prefix_saved"], shared.log[0]["prefix_saved"] > 0.2) == (0, True)
    for figure, rounding in (("ce", 5e-3), ("grad_norm", 3e-2)):
        assert shared.log[0][figure] == pytest.approx(whole.log[0][figure], rel=rounding)
