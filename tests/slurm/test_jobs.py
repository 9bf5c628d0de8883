"""Jobs on a real SLURM: limits, retries, failures, several GPUs and nodes, interruptions."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

from adaptermill import left_over
from tests.slurm.mill import ClusterMill, job_facts, until
from tests.workflow.running import Run

pytestmark = pytest.mark.slow


def train_again_here(mill: ClusterMill, name: str) -> bytes:
    """The adapter trained anew on this machine, without interruption and by one process."""
    for folder in (f"results/adapters/{name}", "results/.store/adapters"):
        shutil.rmtree(mill.path(folder))
    mill.ask()
    mill.here(f"results/adapters/{name}")
    return mill.adapter(name)


def further(mill: ClusterMill) -> None:
    """Waits until ten more steps are made."""
    reached = mill.steps()
    until(lambda: mill.steps() >= reached + 10)


def interrupted(mill: ClusterMill) -> tuple[Run, list[str]]:
    """Trains `long`: stopped by its limit, requeued, then warned. Gives the ids of its jobs too."""
    mill.ask(train={"runtime": 1, "mem_mb": 2000, "retry_growth": 1.5, "slurm_extra": ""})
    run = mill.start("results/adapters/long")
    until(lambda: mill.steps() >= 15)
    [trainer] = mill.trainers()
    trainer.send_signal(signal.SIGSTOP)  # a job of hours in a minute
    second = run.nth_job(2)
    further(mill)
    subprocess.run(["scontrol", "requeue", second], check=True)  # what becomes of preempted ones
    until(
        lambda: job_facts(second)["JobState"] == "RUNNING" and job_facts(second)["Restarts"] == "1"
    )
    further(mill)
    subprocess.run(["scancel", "--signal=TERM", second], check=True)  # what --signal=TERM@120 does
    return run.end(), run.jobs


@pytest.fixture(scope="module", autouse=True)
def limited(mill: ClusterMill) -> Iterator[tuple[ClusterMill, Future[tuple[Run, list[str]]]]]:
    """`interrupted` in a folder of its own, while other tests run: SLURM's limits are minutes."""
    apart = mill.copy("limited")
    with ThreadPoolExecutor(1) as pool:
        yield apart, pool.submit(interrupted, apart)


def test_a_failing_job_is_tried_as_often_as_configured_and_shown_with_its_logs_end(
    mill: ClusterMill, tmp_path: Path
):
    folder = tmp_path / "data" / "episode"
    folder.mkdir(parents=True)
    (folder / "rows.jsonl").write_text("not JSON\n" * 30)
    source = {"name": "bad", "format": "replay", "path": str(tmp_path / "data")}
    asked = {"mem_mb": 1000, "runtime": 5, "retry_growth": 2}
    settings = {**mill.settings, "sources": [source], "resources": {"summarize_ingest": asked}}
    failing = ClusterMill(tmp_path / "work", settings)
    failing.here("results/.work/ingest/bad/manifest.json")
    run = failing.start("results/ingest/summary.json", "--retries", "1")
    result = run.end()
    assert result.status == 1
    jobs = [job for job in run.jobs if "summarize_ingest" in job_facts(job)["Comment"]]
    limits = [(job_facts(job)["TimeLimit"], job_facts(job)["MinMemoryNode"]) for job in jobs]
    assert limits == [("00:05:00", "1000M"), ("00:10:00", "2000M")]
    shown = result.output[result.output.rindex("summarize_ingest (job") :]
    assert "30 of 30 lines of source 'bad' are quarantined" in shown
    assert "less +G results/logs/summarize_ingest/bad.log" in shown


def test_a_cancelled_job_is_reported_with_what_slurm_says(mill: ClusterMill):
    mill.ask()
    run = mill.start("results/adapters/two", "--retries", "0")
    job = run.nth_job(1)
    until(mill.trainers)
    subprocess.run(["scancel", job], check=True)
    result = run.end()
    assert result.status == 1
    shown = result.output[result.output.rindex("train (job") :]
    assert f"failed; SLURM job {job} is CANCELLED." in shown
    assert re.search(rf"less \+G \S*results/logs/slurm/rule_train/\S*{job}\.log", shown)


def test_jobs_side_by_side_get_different_gpus(mill: ClusterMill):
    mill.ask(train={"gpus": 1, "slurm_extra": "--nodelist=node1"})
    result = mill.start("results/adapters/one", "results/adapters/two").end()
    assert result.status == 0, result
    logs = [path.read_text("utf-8") for path in mill.path("results/logs/train").glob("*.log")]
    assert sorted(re.findall(r"^on GPU (.*)$", "".join(logs), re.MULTILINE)) == ["0", "1"]


def test_two_nodes_make_the_adapter_of_one(mill: ClusterMill):
    mill.ask(processes=2, train={"gpus": 2, "nodes": 2})
    run = mill.start("results/adapters/shared")
    facts = job_facts(run.nth_job(1))
    result = run.end()
    assert result.status == 0, result
    assert facts["NumNodes"] == "2" and facts["NodeList"] == "node[1-2]"
    made = load(mill.adapter("shared"))
    alone = load(train_again_here(mill, "shared"))
    assert made.keys() == alone.keys()
    assert max(float((made[name] - alone[name]).abs().max()) for name in made) <= 1e-5
    assert all(torch.isfinite(tensor).all() for tensor in made.values())


def test_jobs_that_the_plugin_forgot_are_cancelled_by_the_runs_name(slurm: None, tmp_path: Path):
    submit = ["sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 60"]
    jobs = [
        subprocess.run(
            [*submit, f"--job-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("this-run", "another-run")
    ]
    left_over.cancel("Building DAG of jobs...\nSLURM run ID: this-run\nUsing shell: bash\n")
    until(lambda: job_facts(jobs[0])["JobState"] == "CANCELLED", 30)
    assert job_facts(jobs[1])["JobState"] in ("PENDING", "RUNNING")
    subprocess.run(["scancel", jobs[1]], check=True)


def test_ctrl_c_leaves_nothing_running(mill: ClusterMill):
    mill.ask()
    run = mill.start("results/adapters/stopped")
    job = run.nth_job(1)
    until(mill.trainers)
    run.process.send_signal(signal.SIGINT)
    assert run.end().status != 0
    until(lambda: job_facts(job)["JobState"] == "CANCELLED", 30)
    until(lambda: not mill.trainers(), 30)
    [name] = re.findall(r"^SLURM run ID: (\S+)$", run.said, re.MULTILINE)
    queued = ["squeue", "-h", "-t", "pending,running", f"--name={name}"]
    assert subprocess.run(queued, capture_output=True, text=True, check=True).stdout == ""
    # The folder is not locked, and the same command goes on.
    assert mill.start("results/adapters/stopped").end().status == 0


def test_a_job_over_its_time_limit_goes_on_in_a_second_one_and_ends_bit_equal(limited):
    """Stopped by its limit, requeued, then warned as the profile asks: each time work is kept."""
    mill, ending = limited
    result, jobs = ending.result()
    assert result.status == 0, result
    assert [job_facts(job)["JobState"] for job in jobs] == ["TIMEOUT", "FAILED", "COMPLETED"]
    asked = [(job_facts(job)["TimeLimit"], job_facts(job)["MinMemoryNode"]) for job in jobs]
    assert asked == [("00:01:00", "2000M"), ("00:02:00", "3000M"), ("00:03:00", "4500M")]
    [log] = mill.path("results/logs/train").glob("*.log")
    assert "resuming after step" in log.read_text("utf-8")
    made = mill.adapter("long")
    assert train_again_here(mill, "long") == made
