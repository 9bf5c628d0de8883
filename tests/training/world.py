"""A small world to train in: a tiny base, twelve ingested rows, plans, and runs of train.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file

from adaptermill.fitsets.plan import PLAN_SCHEMA
from adaptermill.models.base import BaseRef, load_model, load_processor
from adaptermill.models.encode import Encoder
from adaptermill.training import lora
from adaptermill.training.batches import PlanLine
from adaptermill.training.checkpoint import StateFolder
from adaptermill.training.dropout import DropoutKeys
from adaptermill.training.examples import Examples
from adaptermill.training.loop import Shortcuts, Trainer
from adaptermill.training.processes import Processes
from adaptermill.training.recipe import Recipe
from scripts import train
from tests.rows.building import Ingested, picture, record, write_episode

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = REPOSITORY.parent / "shared"
SYSTEM = "You are an agent that works in a browser. Answer with JSON."
SETTINGS: dict[str, Any] = {
    "method": "anchored",
    "rank": 4,
    "alpha": 8,
    "dropout": 0.0,
    "lora_targets": "attn_mlp",
    "learning_rate": 1e-2,
    "batch_rows": 3,
    "beta": 0.1,
    "ce_on": "all",
    "seed": 0,
    "init_from": None,
}


def recipe(**changes: Any) -> Recipe:
    return Recipe.from_settings({**SETTINGS, **changes})


def messages(number: int, image: bool) -> list[dict[str, Any]]:
    """A short prompt, with a screenshot or without."""
    text = f"Interactive elements:\n[{number}]<a>" + " more" * (number % 4)
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
    if image:
        parts.append({"type": "image_url", "image_url": {"url": f"step_{number % 2:03}.png"}})
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": parts}]


def target(number: int) -> str:
    return json.dumps(
        {"memory": "Press it" + "." * number, "action": [{"click": {"index": number}}]}
    )


def make_sources(folder: Path) -> Ingested:
    """Twelve rows in three episodes, main/e0/0 … main/e2/3; every third has no screenshot."""
    files = {
        "step_000.png": picture("navy", (64, 32)),
        "step_001.png": picture("olive", (40, 70)),
    }
    for episode in range(3):
        numbers = range(4 * episode, 4 * episode + 4)
        lines = [
            record(
                f"e{episode}",
                number % 4,
                messages=messages(number, image=number % 3 > 0),
                target=target(number),
            )
            for number in numbers
        ]
        write_episode(folder / "replay", f"e{episode}", lines, files)
    return Ingested(folder / "made", folder / "replay")


def lines(count: int, anchors: int = 3, epochs: int = 1) -> list[PlanLine]:
    """A plan of `count` lines; every `anchors`-th is an anchor row. Epochs are of equal length."""
    made = []
    for position in range(count):
        number = position * 5 % 12
        kind = "anchor" if anchors and position % anchors == anchors - 1 else "ce"
        epoch = position * epochs // count
        made.append(PlanLine(epoch, position, f"main/e{number // 4}/{number % 4}", kind))
    return made


@dataclass
class Result:
    """How a process ended, and what it said."""

    status: int
    output: str


@dataclass
class Job:
    """One training run of scripts/train.py, and where its files lie."""

    arguments: list[str]
    state: Path
    output: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self) -> int:
        """In this process."""
        return train.main(self.arguments)

    def start(self, processes: int | None = None) -> subprocess.Popen[str]:
        """As a process of its own, or with `processes` under torchrun."""
        command = [sys.executable]
        if processes is not None:
            command += ["-m", "torch.distributed.run", "--standalone"]
            command += ["--nproc-per-node", str(processes)]
        return subprocess.Popen(
            [*command, str(REPOSITORY / "scripts" / "train.py"), *self.arguments],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **self.environment},
            cwd=REPOSITORY,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that all of a job can be killed at once
        )

    def finish(self, processes: int | None = None) -> Result:
        return ended(self.start(processes))

    def run_to_step(self, step: int, processes: int | None = None) -> subprocess.Popen[str]:
        """Starts the job and returns when its log holds `step` lines."""
        process = self.start(processes)
        log = self.state / "train_log.jsonl"
        until = time.monotonic() + 300
        while not log.is_file() or log.read_bytes().count(b"\n") < step:
            assert process.poll() is None, ended(process).output
            assert time.monotonic() < until, "the job did not get there"
            time.sleep(0.005)
        return process

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        return load_file(self.output / "adapter_model.safetensors")

    @property
    def record(self) -> dict[str, Any]:
        return json.loads((self.output / "training.json").read_text())

    @property
    def log(self) -> list[dict[str, Any]]:
        text = (self.output / "train_log.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


def ended(process: subprocess.Popen[str]) -> Result:
    """Waits for the end of a process."""
    output, _ = process.communicate(timeout=300)
    return Result(process.returncode, output)


@dataclass
class World:
    """A base and ingested rows; makes jobs, and trainers in this process."""

    folder: Path
    ref: BaseRef
    ingested: Ingested

    def __post_init__(self) -> None:
        self.ref.write(self.folder / "base.json")

    @cached_property
    def encoder(self) -> Encoder:
        return Encoder(load_processor(self.ref))

    @cached_property
    def examples(self) -> Examples:
        return Examples([self.ingested.folder], self.encoder)

    def job(self, folder: Path, plan: Sequence[PlanLine], *options: object, **settings: Any) -> Job:
        """A run in `folder` with the plan; `options` are further arguments of train.py."""
        folder.mkdir(parents=True, exist_ok=True)
        spec = {"stage": "train", "name": "drag", "code": "c0de", "settings": SETTINGS | settings}
        (folder / "spec.json").write_text(json.dumps(spec))
        composition = {"hashes": {"fitset": "hash of the fit set", "plan": "hash of the plan"}}
        (folder / "composition.json").write_text(json.dumps(composition))
        table = pa.Table.from_pylist([vars(line) for line in plan], schema=PLAN_SCHEMA)
        pq.write_table(table, folder / "plan.parquet")
        columns = ["kind", "family", "content_hash"]
        fitset = pa.table({name: pa.array([], pa.string()) for name in columns})
        pq.write_table(fitset, folder / "fitset.parquet")
        given = {
            "--spec": folder / "spec.json",
            "--key": "0123456789abcdef",
            "--base": self.folder / "base.json",
            "--fitset": folder / "fitset.parquet",
            "--plan": folder / "plan.parquet",
            "--data": self.ingested.folder,
            "--state": folder / "state",
            "--output": folder / "adapter",
        }
        arguments = [str(part) for pair in given.items() for part in pair]
        arguments += [str(option) for option in options]
        return Job(arguments, folder / "state", folder / "adapter")

    def adapted(self, chosen: Recipe, start: Path | None = None) -> tuple[Any, DropoutKeys]:
        """A fresh base with an adapter on it, as train.py makes it."""
        keys = DropoutKeys()
        model = lora.attach(load_model(self.ref), chosen, self.ref, keys)
        if start is not None:
            lora.load_start(model, start, chosen)
        model.train(False)
        return model, keys

    def trainer(
        self,
        state: Path,
        plan: Sequence[PlanLine],
        start: Path | None = None,
        shortcuts: Shortcuts | None = None,
        **settings: Any,
    ) -> Trainer:
        """A trainer in this process."""
        chosen = recipe(**settings)
        model, keys = self.adapted(chosen, start)
        state.mkdir(parents=True, exist_ok=True)
        return Trainer(
            model=model,
            examples=self.examples,
            plan=plan,
            recipe=chosen,
            key="a key",
            state=StateFolder(state),
            processes=Processes("cpu"),
            keys=keys,
            shortcuts=shortcuts or Shortcuts(),
        )


def shake(model: torch.nn.Module, size: float = 0.05, seed: int = 1) -> None:
    """Moves every trained tensor away from its start, B from zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in lora.parameters(model):
            parameter += size * torch.randn(parameter.shape, generator=generator)


def difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """The largest difference between two adapters' tensors."""
    assert one.keys() == other.keys()
    return max((one[name] - other[name]).abs().max().item() for name in one)
