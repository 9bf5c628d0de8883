"""Training beside a plain trainer and TRL, on the same rows and base in one run.

    python benchmarks/train.py --replay ../shared/replay              a base of 60 million weights
    python benchmarks/train.py --replay ../shared/replay --base example --rows 48

The pipeline ingests the rows and draws fit set and plan; then each of these trains its first rows,
in a process of its own, from the same adapter, with the same dropout masks:

    plain       a row at a time, gradient checkpointing, a second forward for each anchor row
    ours        the common prefix once a step, reference values computed in the run
    ours again  the same where reference values lie in the store (later epochs, other adapters)
    ours small  with a token budget of 1: everything is recomputed
    TRL         SFTTrainer on the same cross-entropy rows, without screenshots, beside the others

Rows a second, processor seconds and peak memory are told beside the plain trainer's, as are the
largest difference of a loss and the relative difference of the first batch's gradient.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml

from adaptermill.errors import run_command
from adaptermill.example.architecture import Sizes, build
from adaptermill.models.base import BaseRef, load_model, load_processor
from adaptermill.models.encode import Encoder
from adaptermill.models.scoring import target_logits, token_logps
from adaptermill.training import lora
from adaptermill.training.batches import PlanLine, read_plan
from adaptermill.training.checkpoint import StateFolder
from adaptermill.training.dropout import DropoutKeys
from adaptermill.training.examples import Examples
from adaptermill.training.loop import SUMS, Shortcuts, Trainer
from adaptermill.training.objectives import anchor_penalty, cross_entropy
from adaptermill.training.processes import Processes
from adaptermill.training.recipe import Recipe
from adaptermill.training.references import References

REPOSITORY = Path(__file__).resolve().parents[1]
FOUR = ("linear_attention", "linear_attention", "linear_attention", "full_attention")
SIZES = Sizes(
    hidden=640,
    intermediate=2048,
    layers=FOUR * 3,
    heads=8,
    head_dim=64,
    vision_hidden=128,
    vision_depth=2,
    vocabulary=8192,
)
RECIPE = Recipe(
    method="anchored",
    rank=16,
    alpha=32,
    dropout=0.05,
    lora_targets="attn_mlp",
    learning_rate=1e-4,
    batch_rows=8,
    beta=0.1,
    ce_on="all",
    seed=0,
)
MIX = ("plain", "ours", "ours again", "ours small")
TEXT = ("plain", "ours", "TRL")


# ---- one contestant, in a process of its own -----------------------------------------------------


class Contest:
    """The base with an adapter that has moved a little, and the rows to train on."""

    def __init__(self, workdir: Path, rows: int, text: bool) -> None:
        self.workdir = workdir
        ref = BaseRef.read(workdir / "results/base/base.json")
        plan = read_plan(workdir / "results/fitsets/drag/plan.parquet")
        chosen = [line for line in plan if line.kind == "ce"] if text else plan
        self.plan: list[PlanLine] = chosen[:rows]
        processor = load_processor(ref)
        self.encoder = Encoder(replace(processor, multimodal=None) if text else processor)
        self.examples = Examples([workdir / "results/ingest/main"], self.encoder)
        self.keys = DropoutKeys()
        self.base = load_model(ref)
        self.model = lora.attach(self.base, RECIPE, ref, self.keys)
        self.model.train(False)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for _, layer in lora.lora_layers(self.model):
                weight = layer.lora_B["default"].weight
                weight += 0.01 * torch.randn(weight.shape, generator=generator)

    def trainer(self, shortcuts: Shortcuts) -> Trainer:
        state = Path(tempfile.mkdtemp(dir=self.workdir))
        return Trainer(
            model=self.model,
            examples=self.examples,
            plan=self.plan,
            recipe=RECIPE,
            key="benchmark",
            state=StateFolder(state),
            processes=Processes("cpu"),
            keys=self.keys,
            shortcuts=shortcuts,
        )


class Plain(Trainer):
    """The straightforward trainer: nothing is shared, kept or looked at ahead."""

    def accumulate(self, batch: Any, signals: Any = None, shares: Any = None) -> torch.Tensor:
        sums = torch.zeros(len(SUMS), dtype=torch.float64)
        self.optimizer.zero_grad(set_to_none=False)
        prefix = self.shares(batch).prefix  # for the masks alone
        for line in batch:
            encoded = self.examples.encoded(line.row_id)
            reference = None
            if line.kind == "anchor":
                self.keys.set(None)
                with torch.no_grad(), self.model.disable_adapter():
                    reference = self.logps(encoded)
            self._set_dropout(line, encoded, prefix)
            logps = self.logps(encoded)
            if reference is None:
                loss = cross_entropy(logps)
                sums[SUMS.index("ce")] += loss.item()
                sums[SUMS.index("ce_rows")] += 1
            else:
                penalty, _ = anchor_penalty(logps, reference, encoded.action_mask)
                loss = RECIPE.beta * penalty
                sums[SUMS.index("anchor")] += penalty.item()
                sums[SUMS.index("anchor_rows")] += 1
            (loss / len(batch)).backward()
        return sums

    def logps(self, encoded: Any) -> torch.Tensor:
        return token_logps(target_logits(self.model, encoded, "cpu"), encoded.targets)


def run_ours(contest: Contest, name: str, store: Path) -> dict[str, Any]:
    """One of our contestants, or the plain trainer."""
    if name != "ours again":
        shutil.rmtree(store, ignore_errors=True)
    references = References(store, {"benchmark": len(contest.plan)})
    kept = Shortcuts(references=references)
    chosen = {
        "plain": Shortcuts(share_prefix=False),
        "ours": kept,
        "ours again": kept,
        "ours small": replace(kept, token_budget=1),
    }
    trainer = contest.trainer(chosen[name])
    if name == "plain":
        trainer.__class__ = Plain
        contest.base.gradient_checkpointing_enable({"use_reentrant": False})
        contest.model.train()
    losses: list[float] = []
    gradient: list[torch.Tensor] = []

    def watch(accumulate: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def run(*args: Any) -> torch.Tensor:
            sums = accumulate(*args)
            total = dict(zip(SUMS, sums.tolist(), strict=True))
            losses.append(total["ce"] + RECIPE.beta * total["anchor"])
            if not gradient:
                gradient.extend(parameter.grad.clone() for parameter in trainer.parameters)
            return sums

        return run

    trainer.accumulate = watch(trainer.accumulate)
    with measured() as figures:
        trainer.run()
    torch.save(gradient, contest.workdir / f"gradient {name}.pt")
    return {**figures, "losses": losses, "rows": len(contest.plan)}


def run_trl(contest: Contest) -> dict[str, Any]:
    """SFTTrainer on the same tokens; its dropout draws other masks, so its losses are not ours."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    rows = []
    for line in contest.plan:
        encoded = contest.examples.encoded(line.row_id)
        length = len(encoded.input_ids)
        mask = [int(place >= encoded.prompt_length) for place in range(length)]
        rows.append({"input_ids": encoded.input_ids.tolist(), "completion_mask": mask})
    settings = SFTConfig(
        output_dir=str(contest.workdir / "trl"),
        per_device_train_batch_size=1,
        gradient_accumulation_steps=RECIPE.batch_rows,
        gradient_checkpointing=True,
        max_length=None,
        num_train_epochs=1,
        learning_rate=RECIPE.learning_rate,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        completion_only_loss=True,
        shuffle_dataset=False,
    )
    trainer = SFTTrainer(
        model=contest.model,
        args=settings,
        train_dataset=Dataset.from_list(rows),
        processing_class=contest.encoder.tokenizer,
    )
    with measured() as figures:
        trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return {**figures, "losses": losses, "rows": len(rows)}


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Seconds on the clock and of the processors, and the process's peak memory in bytes."""
    figures: dict[str, float] = {}
    clock, processor = time.monotonic(), time.process_time()
    yield figures
    figures["seconds"] = time.monotonic() - clock
    figures["cpu"] = time.process_time() - processor
    figures["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# ---- the contest ---------------------------------------------------------------------------------


def prepare(workdir: Path, replay: Path, base: str, rows: int) -> None:
    """Lets the pipeline ingest the rows and draw fit set and plan for the base."""
    workdir.mkdir(parents=True, exist_ok=True)
    if base == "medium":
        base = str(workdir / "base")
        if not (workdir / "base/config.json").is_file():
            paths = sorted(replay.glob("*/rows.jsonl"))
            build(workdir / "base", (path.read_text("utf-8") for path in paths), SIZES)
    settings = {
        "base": {"model": base},
        "sources": [{"name": "main", "format": "replay", "path": str(replay.resolve())}],
        "adapters": {"drag": {"families": ["Drag & gesture"], "limit": rows, "epochs": 1}},
    }
    (workdir / "config.yaml").write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "snakemake", "--cores", "all", "--quiet", "all"]
    command += ["--snakefile", str(REPOSITORY / "Snakefile"), "results/fitsets/drag/plan.parquet"]
    subprocess.run(command, cwd=workdir, check=True, stdout=subprocess.DEVNULL)


def compete(workdir: Path, name: str, rows: int, text: bool, threads: int) -> dict[str, Any]:
    """Runs one contestant and returns its figures."""
    command = [sys.executable, str(Path(__file__).resolve()), "--one", name]
    command += ["--workdir", str(workdir), "--rows", str(rows), *(["--text"] if text else [])]
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    done = subprocess.run(
        command,
        cwd=workdir,  # paths of the pipeline are relative to it
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def line(name: str, found: dict[str, Any], plain: dict[str, Any], workdir: Path) -> str:
    faster, memory = plain["seconds"] / found["seconds"], found["peak"] / plain["peak"]
    told = (
        f"{name:<11} {found['rows'] / found['seconds']:>7.3f} rows/s ({faster:.2f}x, by processor "
        f"time {plain['cpu'] / found['cpu']:.2f}x)  peak {found['peak'] / 1e9:.2f} GB "
        f"({memory:.2f}x)"
    )
    if name in ("plain", "TRL"):
        return told
    losses = zip(found["losses"], plain["losses"], strict=True)
    apart = max(abs(one - other) for one, other in losses)
    one, other = (
        torch.cat([part.flatten().double() for part in torch.load(workdir / f"gradient {each}.pt")])
        for each in (name, "plain")
    )
    gradient = float((one - other).norm() / other.norm())
    return f"{told}  losses within {apart:.0e}, gradient within {gradient:.0e}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replay", type=Path, help="a replay root")
    parser.add_argument("--base", default="medium", help="medium, example, or a folder")
    parser.add_argument("--rows", type=int, default=16, help="rows that each trains")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--workdir", type=Path, help="kept and used again where it is given")
    parser.add_argument("--one", choices=sorted({*MIX, *TEXT}), help=argparse.SUPPRESS)
    parser.add_argument("--text", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.one is not None:
        contest = Contest(arguments.workdir, arguments.rows, arguments.text)
        store = arguments.workdir / f"references {arguments.one.removesuffix(' again')}"
        found = (
            run_trl(contest) if arguments.one == "TRL" else run_ours(contest, arguments.one, store)
        )
        print(json.dumps(found))
        return 0
    if arguments.replay is None:
        parser.error("--replay is needed")
    with tempfile.TemporaryDirectory() as scratch:
        workdir = (arguments.workdir or Path(scratch)).resolve()
        prepare(workdir, arguments.replay, arguments.base, arguments.rows)
        load = os.getloadavg()[0]
        print(f"{arguments.rows} rows, {arguments.threads} threads, load {load:.1f} at the start")
        for title, names, text in (
            ("cross-entropy and anchor rows", MIX, False),
            ("cross-entropy rows without screenshots", TEXT, True),
        ):
            print(f"\n{title}", flush=True)
            plain: dict[str, Any] = {}
            for name in names:
                found = compete(workdir, name, arguments.rows, text, arguments.threads)
                plain = plain or found
                print(line(name, found, plain, workdir), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
