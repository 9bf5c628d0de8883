"""Bases of other families train too; the shortcuts are exact on them, or off and said to be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from adaptermill.training.loop import Shortcuts
from tests.other_bases import OTHER, TEXT, make_text
from tests.training.test_prefix import distance, results
from tests.training.world import World, lines


@pytest.fixture(scope="module", params=[*TEXT, *OTHER])
def other(
    request: pytest.FixtureRequest, world: World, tmp_path_factory: pytest.TempPathFactory
) -> World:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param in TEXT:
        ref = make_text(folder / "base", world.ref, TEXT[request.param]())
    else:
        ref = OTHER[request.param](folder / "base", world.ref)
    return World(folder, ref, world.ingested)


def test_an_adapter_is_trained(other: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    job = other.job(tmp_path, lines(12), dropout=0.05, batch_rows=6)
    assert job.run() == 0
    assert job.log[-1]["ce"] < job.log[0]["ce"]
    assert job.record["images_dropped"] == (other.ref.model in TEXT)
    said = "every row is run whole, its prefix too: gemma3" in capsys.readouterr().out
    assert said == (other.ref.model == "gemma3")
    assert (job.log[0]["prefix_saved"] > 0) != said


def test_shared_prefixes_and_recomputation_give_whole_rows(other: World, tmp_path: Path):
    made = []
    for shortcuts in (Shortcuts(share_prefix=False), Shortcuts(), Shortcuts(token_budget=1)):
        trainer = other.trainer(tmp_path, lines(6), batch_rows=6, dropout=0.05, shortcuts=shortcuts)
        made.append(results(trainer))
    (whole_sums, whole), (shared_sums, shared), (small_sums, small) = made
    assert torch.allclose(shared_sums, whole_sums, rtol=1e-5, atol=1e-6)
    assert distance(shared, whole) <= 1e-5
    assert small_sums.equal(shared_sums)
    assert all(one.equal(again) for one, again in zip(small, shared, strict=True))
