"""A workspace whose jobs run on the test SLURM, and what can be asked of it."""

from __future__ import annotations

import copy
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from adaptermill.example.write import write_episodes
from tests.tiny_base import make_tiny_base
from tests.workflow.running import Run, Workspace

ATTENTIVE = Path(__file__).with_name("attentive.py")
SUBMITTED = re.compile(r"^Job (\d+) has been submitted with SLURM jobid (\d+)", re.MULTILINE)
SETTINGS: dict[str, Any] = {
    "base": {"model": "BASE"},
    "sources": [{"name": "main", "format": "replay", "path": "DATA"}],
    "split": {"validation_fraction": 0.2},
    "recipe": {
        **{"rank": 2, "alpha": 4, "epochs": 1, "batch_rows": 1, "limit": 6, "beta": 0},
        **{"learning_rate": 1e-3},
    },
    "adapters": {
        **{name: {"seed": seed} for seed, name in enumerate(("one", "two", "stopped"))},
        "long": {"limit": 60, "epochs": 2},
        "shared": {"batch_rows": 3, "limit": 12},
    },
    "training": {"save_every": 10},
    "evaluation": {"generate": False, "bootstrap": 100},
    "resources": {"train": {"threads": 1}},
}


def until(happens: Callable[[], Any], seconds: float = 90) -> Any:
    """What `happens` gives as soon as that is true."""
    end = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < end, f"{happens} did not come true in {seconds} seconds"
        time.sleep(0.1)
    return found


def job_facts(job: str) -> dict[str, str]:
    """What SLURM says of a job, as it says it."""
    command = ["scontrol", "show", "job", "-d", job]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"(\S+?)=(\S*)", said))


class Running:
    """A Snakemake that runs while the test goes on."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.log = folder / f"snakemake-{time.monotonic_ns()}.txt"
        with open(self.log, "w", encoding="utf-8") as said:
            environment = {**os.environ, "PYTHONPATH": ""}
            self.process = subprocess.Popen(
                command,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=folder,
                # A shell's background jobs, and what they start, ignore Ctrl-C.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    @property
    def jobs(self) -> list[str]:
        """The ids of its SLURM jobs, in the order of submission."""
        return [slurm for _, slurm in SUBMITTED.findall(self.said)]

    def nth_job(self, number: int) -> str:
        """The id of its n-th SLURM job (from 1 on), as soon as that runs."""

        def runs() -> bool:
            assert self.process.poll() is None, self.said[-6000:]
            jobs = self.jobs
            return len(jobs) >= number and job_facts(jobs[number - 1])["JobState"] == "RUNNING"

        until(runs)
        return self.jobs[number - 1]

    def end(self) -> Run:
        status = self.process.wait()
        return Run(subprocess.CompletedProcess([], status, self.said, ""))


class ClusterMill(Workspace):
    """A workspace that is built on the cluster by `start` and `run`, and here by `here`."""

    @classmethod
    def make(cls, folder: Path) -> ClusterMill:
        write_episodes(folder / "data", 48, 0)
        make_tiny_base(folder / "base")
        settings = {
            **SETTINGS,
            "base": {"model": str(folder / "base")},
            "sources": [{"name": "main", "format": "replay", "path": str(folder / "data")}],
        }
        mill = cls(folder / "work", settings)
        mill.here(*(f"results/fitsets/{name}/composition.json" for name in settings["adapters"]))
        return mill

    def copy(self, name: str) -> ClusterMill:
        """The same workspace in another folder beside this one."""
        folder = self.folder.with_name(name)
        shutil.copytree(self.folder, folder)
        return ClusterMill(folder, copy.deepcopy(self.settings))

    def arguments(self, *targets: str) -> list[str]:
        return [
            *(sys.executable, str(ATTENTIVE), "--snakefile", str(self.repository / "Snakefile")),
            *("--workflow-profile", str(self.repository / "profiles" / "slurm")),
            *("--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "5"),
            *("--directory", str(self.folder), *targets),
        ]

    def ask(self, processes: int = 1, train: Mapping[str, Any] | None = None) -> None:
        """Sets what training jobs ask for; anything else stays as it is."""
        self.settings["training"]["processes"] = processes
        self.settings["resources"] = {"train": {"threads": 1, **(train or {})}}
        self.configure({})

    def here(self, *targets: str) -> None:
        """Builds targets on this machine, without the cluster."""
        Workspace(self.folder, self.settings).run(*targets)

    def start(self, *targets: str) -> Running:
        return Running(self.arguments(*targets), self.folder)

    def adapter(self, name: str) -> bytes:
        return self.path(f"results/adapters/{name}/adapter_model.safetensors").read_bytes()

    def trainers(self) -> list[psutil.Process]:
        """The processes that train in this workspace now (not their launchers)."""
        found = []
        for process in psutil.process_iter():
            try:
                trains = any(part.endswith("scripts/train.py") for part in process.cmdline())
                if (
                    trains
                    and "LOCAL_RANK" in process.environ()
                    and process.cwd() == str(self.folder)
                ):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def steps(self) -> int:
        """Optimizer steps that the run under way has logged."""
        logs = self.path("results/.work/training").glob("*/train_log.jsonl")
        return max((log.read_bytes().count(b"\n") for log in logs), default=0)
