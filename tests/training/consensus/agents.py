"""Four agents to train: example rollouts made into fit sets, and runs of train_consensus.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from adaptermill.config import load
from adaptermill.example.architecture import Sizes
from adaptermill.example.arithmetic import draw_rollouts
from adaptermill.message_stages import MessageStages
from adaptermill.models.base import BaseRef, load_model, load_processor
from adaptermill.models.encode import Encoder
from adaptermill.specs import CONSENSUS_SETTINGS, NOT_FOR_SELECTION
from adaptermill.training.checkpoint import StateFolder
from adaptermill.training.consensus.answers import Answers
from adaptermill.training.consensus.basis import Basis
from adaptermill.training.consensus.examples import make_nodes, read_examples
from adaptermill.training.consensus.fitting import Fitting
from adaptermill.training.consensus.loop import ConsensusTrainer
from adaptermill.training.consensus.recipe import ConsensusRecipe
from adaptermill.training.processes import Processes
from scripts import message_fitset, train_consensus
from tests.training.world import REPOSITORY, Result, ended
from tests.trajectories.building import Project

TINY = Sizes(
    hidden=32,
    intermediate=48,
    layers=("linear_attention", "full_attention"),
    heads=2,
    head_dim=16,
    vision_hidden=32,
    vision_depth=1,
    vocabulary=400,
)
# Small, so that a run takes a moment.
SMALL = {
    "rank": 2,
    "alpha": 4,
    "rounds": 2,
    "local_steps": 2,
    "batch_examples": 2,
    "grad_clip": 1.0,
}


def settings(**recipe: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the fit set and of training of one adapter, as a configuration gives them."""
    config = load(
        {
            "sources": [{"name": "main", "format": "trajectories", "path": "raw"}],
            "adapters": {"mas": {"method": "consensus", **SMALL, **recipe}},
        }
    )
    resolved = config.recipes["mas"]
    made = MessageStages(config).fitset_settings("mas", NOT_FOR_SELECTION)
    training = resolved.model_dump(include=set(CONSENSUS_SETTINGS))
    training |= {"examples": resolved.trajectories.examples, "init_from": resolved.init_from}
    return made, training


@dataclass
class Run:
    """One run of train_consensus.py, and where its files lie."""

    arguments: list[str]
    state: Path
    output: Path

    def run(self) -> int:
        """In this process."""
        return train_consensus.main(self.arguments)

    def start(self, processes: int | None = None) -> subprocess.Popen[str]:
        """As a process of its own, or with `processes` under torchrun."""
        command = [sys.executable]
        if processes is not None:
            command += ["-m", "torch.distributed.run", "--standalone"]
            command += ["--nproc-per-node", str(processes)]
        return subprocess.Popen(
            [*command, str(REPOSITORY / "scripts" / "train_consensus.py"), *self.arguments],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
            cwd=REPOSITORY,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that all of a run can be killed at once
        )

    def finish(self, processes: int | None = None) -> Result:
        return ended(self.start(processes))

    def run_until(self, pattern: str, processes: int | None = None) -> subprocess.Popen[str]:
        """Starts the run and returns when the state folder holds a file of that pattern."""
        process = self.start(processes)
        until = time.monotonic() + 300
        while not any(self.state.glob(pattern)):
            assert process.poll() is None, ended(process).output
            assert time.monotonic() < until, "the run did not get there"
            time.sleep(0.002)
        return process

    def tensors(self, node: str | None = None) -> dict[str, torch.Tensor]:
        folder = self.output if node is None else self.output / "nodes" / node
        return load_file(folder / "adapter_model.safetensors")

    @property
    def record(self) -> dict[str, Any]:
        return json.loads((self.output / "training.json").read_text())


class Agents:
    """Example rollouts, ingested and split; makes fit sets, runs, and trainers in this process."""

    def __init__(self, folder: Path, ref: BaseRef, queries: int = 24, rollouts: int = 4) -> None:
        self.folder = folder
        self.ref = ref
        self.project = Project(folder / "project", *draw_rollouts(0, queries, rollouts))
        self.encoder = Encoder(load_processor(ref))
        ref.write(folder / "base.json")

    def fitset(self, folder: Path, **recipe: Any) -> tuple[Path, dict[str, Any]]:
        """The fit set of such an adapter in `folder`, and its settings of training."""
        made, training = settings(**recipe)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fitset_spec.json").write_text(json.dumps({"settings": made}))
        message_fitset.main(
            [
                *("--spec", str(folder / "fitset_spec.json")),
                *("--data", str(self.project.data)),
                *("--rows", str(self.project.folder / "rows.parquet")),
                *("--measures", str(self.project.folder / "measures.parquet")),
                *("--output-folder", str(folder / "fitset")),
            ]
        )
        return folder / "fitset" / "fitset.parquet", training

    def job(self, folder: Path, *options: object, name: str = "mas", **recipe: Any) -> Run:
        """A run in `folder`; `options` are further arguments of train_consensus.py."""
        fitset, training = self.fitset(folder, **recipe)
        spec = {"stage": "train", "name": name, "code": "c0de", "settings": training}
        (folder / "spec.json").write_text(json.dumps(spec))
        given = {
            "--spec": folder / "spec.json",
            "--key": "0123456789abcdef",
            "--base": self.folder / "base.json",
            "--fitset": fitset,
            "--data": self.project.data,
            "--state": folder / "state",
            "--output": folder / "adapter",
        }
        arguments = [str(part) for pair in given.items() for part in pair]
        arguments += [str(option) for option in options]
        return Run(arguments, folder / "state", folder / "adapter")

    def fitting(self, folder: Path, start: Path | None = None, **recipe: Any) -> Fitting:
        """The objectives in this process, on a fresh base."""
        fitset, training = self.fitset(folder, **recipe)
        chosen = ConsensusRecipe.from_settings(training)
        nodes = make_nodes(read_examples(fitset, chosen.examples), chosen.as_dict())
        basis = Basis(load_model(self.ref), chosen, self.ref, start)
        answers = Answers([self.project.data], self.encoder)
        return Fitting(basis, answers, nodes, chosen, torch.device("cpu"))

    def trainer(self, folder: Path, start: Path | None = None, **recipe: Any) -> ConsensusTrainer:
        """A trainer in this process."""
        fitting = self.fitting(folder, start, **recipe)
        (folder / "state").mkdir(exist_ok=True)
        return ConsensusTrainer(fitting, "a key", StateFolder(folder / "state"), Processes("cpu"))
