"""Jobs side by side take different GPUs, and a job that dies gives its own back at once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adaptermill import gpus
from adaptermill.errors import UserError

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPT = REPOSITORY / "scripts" / "with_gpus.py"
# Writes what it was given, then waits to be stopped.
SHOW = "import os, sys, time; open(sys.argv[1], 'w').write(os.environ['CUDA_VISIBLE_DEVICES']); "
HOLD = SHOW + "time.sleep(60)"


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Path:
    """A machine with the GPUs 0 to 3 as far as the environment says, and locks of its own."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    return tmp_path


def start(count: int, shown: Path, code: str = HOLD) -> subprocess.Popen:
    command = [sys.executable, str(SCRIPT), "--gpus", str(count), "--threads", "1", "--"]
    return subprocess.Popen([*command, sys.executable, "-c", code, str(shown)])


def given(shown: Path, seconds: float = 20) -> set[str] | None:
    """The GPUs that the command was given; None when it was given none in that time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if shown.is_file() and (text := shown.read_text(encoding="utf-8")):
            return set(text.split(","))
        time.sleep(0.05)
    return None


def end(*jobs: subprocess.Popen) -> None:
    for job in jobs:
        job.terminate()
        job.wait()


def test_jobs_of_one_and_two_gpus_take_different_ones(machine):
    jobs = [start(count, machine / f"job{number}") for number, count in enumerate((2, 1, 1))]
    try:
        held = [given(machine / f"job{number}") for number in range(3)]
        assert [len(each) for each in held] == [2, 1, 1]
        assert set.union(*held) == {"0", "1", "2", "3"}
    finally:
        end(*jobs)


def test_a_killed_job_gives_its_gpus_to_the_one_that_waits(machine):
    first = start(3, machine / "first")
    assert len(given(machine / "first")) == 3
    second = start(2, machine / "second")
    try:
        assert given(machine / "second", 3) is None
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert len(given(machine / "second")) == 2
    finally:
        end(second)


def test_one_who_waits_for_many_is_not_passed_by_those_who_want_few(machine):
    first = start(1, machine / "first")
    given(machine / "first")
    many = start(4, machine / "many")
    time.sleep(2)
    few = start(1, machine / "few")
    try:
        assert given(machine / "few", 3) is None
        end(first)
        assert given(machine / "many") == {"0", "1", "2", "3"}
        assert given(machine / "few", 1) is None
    finally:
        end(many)
        assert len(given(machine / "few")) == 1
        end(few)


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN], ids=["default", "ignored"])
def test_the_command_ends_with_its_launcher(machine, handler):
    """An orphan would go on with GPUs that the next job believes to be free.

    Also where whoever started the launcher ignores SIGTERM, which is inherited.
    """
    code = SHOW + "print(os.getpid(), flush=True); time.sleep(60)"
    command = [sys.executable, str(SCRIPT), "--", sys.executable, "-c", code, str(machine / "job")]
    signal.signal(signal.SIGTERM, handler)
    job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    pid = int([job.stdout.readline() for _ in range(2)][1])
    job.kill()
    job.wait()
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":  # ended; who adopted it has not looked yet
            return
        time.sleep(0.05)
    raise AssertionError("the command outlived its launcher")


def test_the_commands_status_and_signals_pass_through(machine):
    command = [sys.executable, str(SCRIPT), "--", "bash", "-c", "exit 75"]
    assert subprocess.run(command, check=False).returncode == 75
    missing = subprocess.run(
        [*command[:3], "no-such-command"], **{"capture_output": True, "text": True, "check": False}
    )
    assert missing.returncode == 2 and "no-such-command" in missing.stderr


def test_more_than_there_are_is_refused(machine):
    with pytest.raises(UserError, match="5 GPUs are asked for and 4 can be used"), gpus.take(5):
        pass


@pytest.mark.parametrize(
    ("visible", "ids"),
    [("", []), ("-1", []), ("2,3", ["2", "3"]), ("1,-1,2", ["1"]), ("GPU-5f,GPU-6a", None)],
)
def test_the_environment_is_the_pool(visible, ids, monkeypatch):
    found = gpus.pool({"CUDA_VISIBLE_DEVICES": visible})
    assert list(found) == (visible.split(",") if ids is None else ids)


def test_without_gpus_or_where_none_are_asked_for_nothing_is_taken(machine, monkeypatch):
    with gpus.take(0) as taken:
        assert taken is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with gpus.take(2) as taken:
        assert taken is None


def test_jobs_of_one_allocation_take_different_gpus(machine, monkeypatch):
    """Snakemake run by hand inside a SLURM allocation has that allocation's GPUs as its pool."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with gpus.take(2) as first, gpus.take(2) as second:
        assert {*first.split(","), *second.split(",")} == {"0", "1", "2", "3"}
