"""A tiny base, an ingested source and adapters: what evaluations are made of, built once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adaptermill.models.base import BaseRef
from tests.evaluation.building import click
from tests.rows.building import Ingested, picture, record, write_episode
from tests.tiny_base import make_tiny_base

HELDOUT = ("row_id", "task_id", "family", "step", "op", "variant", "content_hash")


@dataclass(frozen=True)
class Place:
    """Files of a small build, and how scripts/evaluate.py is called on them."""

    folder: Path
    ref: BaseRef
    ingested: Ingested
    adapter: Path

    def arguments(self, output: Path, **settings: Any) -> list[str]:
        spec = output.with_suffix(".spec.json")
        chosen = {"generate": False, "curve": True, "max_new_tokens": 8, **settings}
        spec.write_text(json.dumps({"settings": chosen}))
        given = {
            "--spec": spec,
            "--base": self.folder / "base.json",
            "--heldout": self.folder / "heldout.parquet",
            "--data": self.ingested.folder,
            "--state": output.with_suffix(".state"),
            "--output": output,
        }
        return [str(part) for pair in given.items() for part in pair]


def write_heldout(ingested: Ingested, path: Path, renamed: str | None = None) -> None:
    """Lists every row as held out, in the reverse of their order."""
    rows = ingested.table("shards")
    lines = [{"side": "validation", **{name: line[name] for name in HELDOUT}} for line in rows]
    lines.sort(key=lambda line: line["row_id"], reverse=True)
    if renamed:
        lines = [{**line, "family": renamed} for line in lines]
    pq.write_table(pa.Table.from_pylist(lines), path)
    path.with_suffix(".json").write_text(json.dumps({"digest": "0123", "rows": len(lines)}))


def write_adapter(ref: BaseRef, folder: Path, seed: int, scale: float) -> None:
    """A PEFT adapter on attention and MLP, B drawn with that scale, as users save one."""
    import torch
    from peft import LoraConfig, get_peft_model

    from adaptermill.models.base import load_model

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = get_peft_model(
            load_model(ref),
            LoraConfig(
                r=4,
                lora_alpha=8,
                target_modules=r".*language_model.*(q_proj|v_proj|up_proj|down_proj)",
                task_type="CAUSAL_LM",
            ),
        )
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=scale)
    model.save_pretrained(folder)


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Place:
    """Seven episodes of five rows, a tiny base, and an adapter with a key."""
    folder = tmp_path_factory.mktemp("evaluation")
    ref = make_tiny_base(folder / "tiny")
    ref.write(folder / "base.json")
    for number in range(7):
        lines = [
            record(
                f"task-{number}",
                step,
                target=click(step),
                family="Navigation" if number % 2 else "Text entry",
            )
            for step in range(5)
        ]
        shown = picture(size=(64 + 32 * (number % 2), 64))
        write_episode(folder / "raw", f"task-{number}", lines, {"step_000.png": shown})
    ingested = Ingested(folder / "ingest", folder / "raw")
    write_heldout(ingested, folder / "heldout.parquet")
    write_adapter(ref, folder / "drag", 1, 0.5)
    (folder / "drag" / "training.json").write_text(json.dumps({"key": "0f3a"}))
    return Place(folder, ref, ingested, folder / "drag")
