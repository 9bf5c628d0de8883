"""Killed, stopped and started again, a run ends with the adapter of an uninterrupted one."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adaptermill.errors import UserError
from adaptermill.training.checkpoint import StateFolder
from tests.training.world import REPOSITORY, Job, Result, World, difference, ended, lines

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


KILLS = 10


def kill_at_random_steps(job: Job, seed: int, processes: int | None) -> None:
    """SIGKILL to the launcher and all workers at ten seeded steps, each start going on a little."""
    for step in sorted(random.Random(seed).sample(range(5, STEPS - 3), KILLS)):
        process = job.run_to_step(step, processes)
        os.killpg(process.pid, signal.SIGKILL)
        assert ended(process).status == -signal.SIGKILL
        assert not job.output.exists()


def test_a_trainer_killed_at_any_step_goes_on_from_its_last_checkpoint(
    world: World, tmp_path: Path, uninterrupted: Job
):
    job = make(world, tmp_path)
    kill_at_random_steps(job, 0, None)
    # The last checkpoint may be cut short by what killed the machine, too.
    newest = max(job.state.glob("step_*.pt"), key=lambda path: int(path.stem[5:]))
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    result = job.finish()
    assert result.status == 0, result.output
    assert f"{newest.name} cannot be read" in result.output
    assert "resuming after step" in result.output
    assert_same(job, uninterrupted)


def test_two_processes_killed_at_any_step_go_on_too(world: World, tmp_path: Path):
    jobs = [two_rows_a_step(world, tmp_path / name) for name in ("killed", "whole")]
    kill_at_random_steps(jobs[0], 1, 2)
    for job in jobs:
        result = job.finish(processes=2)
        assert result.status == 0, result.output
    assert_same(*jobs)


def two_rows_a_step(world: World, folder: Path) -> Job:
    """As `make`, but with two rows a step, of which each process takes one."""
    plan = lines(2 * STEPS, epochs=2)
    job = world.job(folder, plan, "--save-every", 8, batch_rows=2, dropout=0.05)
    job.environment["OMP_NUM_THREADS"] = "1"
    return job


# Ends the process where the finished adapter is put in place: before that, or just after it.
KILLER = """
import os, signal, sys
from adaptermill import atomic
from scripts import train
place, when = sys.argv[1:3]
replace = os.replace
def killing(source, target):
    if str(target) == place and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
    if str(target) == place:
        os.kill(os.getpid(), signal.SIGKILL)
os.replace = killing
train.main(sys.argv[3:])
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_between_the_write_and_the_publication(
    world: World, tmp_path: Path, uninterrupted: Job, when: str
):
    job = make(world, tmp_path)
    command = [sys.executable, "-c", KILLER, str(job.output), when, *job.arguments]
    killed = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
    assert killed.returncode == -signal.SIGKILL
    assert job.output.exists() == (when == "after")
    assert len(list(tmp_path.glob(".adapter.*.tmp"))) == (when == "before")
    written = job.output.stat().st_mtime_ns if when == "after" else None
    assert job.run() == 0
    assert written in (None, job.output.stat().st_mtime_ns)  # what is whole is not written again
    assert not list(tmp_path.glob(".adapter.*.tmp"))
    assert_same(job, uninterrupted)


def limited(job: Job, command: list[str], **options: Any) -> Result:
    """Runs the job behind a command, or with options of subprocess.run."""
    script = [sys.executable, str(REPOSITORY / "scripts/train.py"), *job.arguments]
    done = subprocess.run(
        [*command, *script],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **options,
    )
    return Result(done.returncode, done.stdout)


def test_where_a_checkpoint_cannot_be_written_the_one_before_serves(
    world: World, tmp_path: Path, uninterrupted: Job
):
    """A file that may not grow beyond 20 KB stands for a full disk."""
    job = make(world, tmp_path)
    process = job.run_to_step(9)
    os.killpg(process.pid, signal.SIGKILL)
    ended(process)
    kept = sorted(path.name for path in job.state.glob("step_*.pt"))
    full = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # noqa: E731
    result = limited(job, [], preexec_fn=full)
    assert result.status == 2, result.output
    assert "cannot be written" in result.output and "is the disk full" in result.output
    assert "Traceback" not in result.output
    assert sorted(path.name for path in job.state.glob("step_*.pt")) == kept
    assert not (job.state / "refused.txt").exists() and not job.output.exists()
    assert job.run() == 0
    assert_same(job, uninterrupted)


def test_a_state_folder_that_cannot_be_written_is_said(world: World, tmp_path: Path):
    job = make(world, tmp_path)
    job.state.mkdir()
    job.state.chmod(0o500)
    # Not even root writes there without this capability.
    drop = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
    if os.geteuid() == 0 and (
        shutil.which("setpriv") is None or subprocess.run([*drop, "true"]).returncode
    ):
        pytest.skip("root writes everywhere here")
    result = limited(job, drop if os.geteuid() == 0 else [])
    job.state.chmod(0o700)
    assert result.status == 2, result.output
    assert "Permission denied" in result.output and str(job.state) in result.output
    assert "Traceback" not in result.output


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
