"""Several processes train the adapter that one process trains, and end together."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.training.world import Job, World, difference, ended, lines

pytestmark = pytest.mark.slow


def assert_equal_but_for_rounding(job: Job, alone: Job) -> None:
    assert difference(job.tensors, alone.tensors) <= 1e-5
    for line, wanted in zip(job.log, alone.log, strict=True):
        for name in ("step", "rows", "epoch", "lr", "clamped"):
            assert line[name] == wanted[name]
        for name in ("ce", "anchor", "grad_norm"):
            if wanted[name] is None:  # no row of this kind in the batch
                assert line[name] is None
            else:
                assert line[name] == pytest.approx(wanted[name], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("count", "settings"),
    [
        # The last batch is one row: one process has none, and two do not divide three.
        (10, {"batch_rows": 3, "dropout": 0.05}),
        # One process never has a row but the one of each batch.
        (6, {"batch_rows": 1, "dropout": 0.0}),
    ],
)
def test_two_processes_train_what_one_trains(world: World, tmp_path: Path, count, settings):
    plan = lines(count)
    alone = world.job(tmp_path / "one", plan, **settings)
    assert alone.run() == 0
    job = world.job(tmp_path / "two", plan, **settings)
    job.environment["OMP_NUM_THREADS"] = "1"
    result = job.finish(processes=2)
    assert result.status == 0, result.output
    assert job.record["telemetry"]["processes"] == 2
    assert_equal_but_for_rounding(job, alone)


def test_terminated_processes_end_together_and_one_alone_goes_on(world: World, tmp_path: Path):
    plan = lines(100)
    settings = {"batch_rows": 2, "dropout": 0.05, "learning_rate": 1e-3}
    alone = world.job(tmp_path / "one", plan, **settings)
    assert alone.run() == 0
    job = world.job(tmp_path / "two", plan, **settings)
    job.environment["OMP_NUM_THREADS"] = "1"
    process = job.run_to_step(3, processes=2)
    process.send_signal(signal.SIGTERM)
    stopped = ended(process)
    assert stopped.status != 0
    assert "Connection closed" not in stopped.output  # none was left waiting in a sum
    last = (job.state / "train_log.jsonl").read_bytes().count(b"\n")
    assert 3 <= last < 50
    assert (job.state / f"step_{last}.pt").is_file()
    assert job.run() == 0
    assert_equal_but_for_rounding(job, alone)


def test_a_refusal_of_several_processes_is_kept(world: World, tmp_path: Path):
    job = world.job(tmp_path, lines(4), batch_rows=2, learning_rate=1e30)
    job.environment["OMP_NUM_THREADS"] = "1"
    result = job.finish(processes=2)
    assert result.status != 0
    assert "is not finite at step 1" in (job.state / "refused.txt").read_text()
    assert result.output.count("error: the ") == 1  # said once
    assert not job.output.exists()
