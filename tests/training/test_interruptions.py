"""Killed, stopped and started again, a run ends with the adapter of an uninterrupted one."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from adaptermill.errors import UserError
from adaptermill.training.checkpoint import StateFolder
from tests.training.world import Job, World, difference, ended, lines

STEPS = 40
pytestmark = pytest.mark.slow


def make(world: World, folder: Path) -> Job:
    """Forty steps of one row, a checkpoint after every fourth and after each of two epochs."""
    plan = lines(STEPS, epochs=2)
    return world.job(folder, plan, "--save-every", 4, batch_rows=1, dropout=0.05)


@pytest.fixture(scope="module")
def uninterrupted(world: World, tmp_path_factory: pytest.TempPathFactory) -> Job:
    job = make(world, tmp_path_factory.mktemp("uninterrupted"))
    result = job.finish()
    assert result.status == 0, result.output
    return job


def assert_same(job: Job, uninterrupted: Job) -> None:
    """Bit for bit: the adapters of the end and of the epochs; and a log without gaps."""
    for name in (
        "adapter_model.safetensors",
        "adapter_config.json",
        "epochs/1/adapter_model.safetensors",
    ):
        assert (job.output / name).read_bytes() == (uninterrupted.output / name).read_bytes()
    assert difference(job.tensors, uninterrupted.tensors) == 0
    timed = {"rows_per_s", "tokens_per_s", "eta_s", "peak_gb"}
    made, wanted = (
        [{name: line[name] for name in line.keys() - timed} for line in each.log]
        for each in (job, uninterrupted)
    )
    assert made == wanted
    assert not job.state.exists()


def test_a_trainer_killed_at_any_step_goes_on_from_its_last_checkpoint(
    world: World, tmp_path: Path, uninterrupted: Job
):
    job = make(world, tmp_path)
    for step in sorted(random.Random(0).sample(range(6, STEPS - 4), 2)):
        process = job.run_to_step(step)
        process.send_signal(signal.SIGKILL)
        assert ended(process).status == -signal.SIGKILL
        assert not job.output.exists()
    result = job.finish()
    assert result.status == 0, result.output
    assert "resuming after step" in result.output
    assert_same(job, uninterrupted)


def test_a_terminated_trainer_writes_its_last_finished_step(
    world: World, tmp_path: Path, uninterrupted: Job
):
    job = make(world, tmp_path)
    process = job.run_to_step(6)
    # While it lives, even asleep, no other may write into its state.
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(UserError, match=f"pid {process.pid} on .* is training into"):
        StateFolder(job.state).lock(wait_seconds=0.3)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    stopped = ended(process)
    assert stopped.status == 75, stopped.output
    assert "start again to go on" in stopped.output
    last = (job.state / "train_log.jsonl").read_bytes().count(b"\n")
    assert 6 <= last < STEPS
    assert (job.state / f"step_{last}.pt").is_file()
    assert not job.output.exists()
    result = job.finish()
    assert result.status == 0, result.output
    assert f"resuming after step {last} of {STEPS}" in result.output
    assert_same(job, uninterrupted)


def test_a_trainer_does_not_outlive_its_launcher(world: World, tmp_path: Path, uninterrupted: Job):
    """torchrun killed by the kernel or a person: the next try finds the state saved and free."""
    job = make(world, tmp_path)
    launcher = job.run_to_step(6, processes=1)
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    state = StateFolder(job.state)
    state.lock(wait_seconds=20)
    last = (job.state / "train_log.jsonl").read_bytes().count(b"\n")
    assert 6 <= last < STEPS
    assert (job.state / f"step_{last}.pt").is_file()
    state._lock.close()
    assert job.run() == 0
    assert_same(job, uninterrupted)
