"""The shipped configuration gives what the README shows: the specialist beats the base."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
import torch
from peft import PeftModel

from adaptermill.models.base import BaseRef, load_model, load_processor
from adaptermill.models.encode import Encoder
from adaptermill.models.scoring import target_logits, token_logps
from adaptermill.rows.dataset import open_sources
from adaptermill.rows.images import decode
from tests.workflow.running import copy_checkout

pytestmark = pytest.mark.slow


class Shipped(NamedTuple):
    """A folder in which `make drag` ran, and what that said."""

    folder: Path
    said: str

    def path(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="module")
def shipped(tmp_path_factory) -> Shipped:
    """`make drag` in a copy of the checkout, with the environment that is here."""
    folder = tmp_path_factory.mktemp("shipped")
    copy_checkout(folder, "Makefile", "config.yaml", "pyproject.toml", "constraints.txt")
    (folder / "ready").touch()
    done = subprocess.run(
        ["make", "drag", f"BIN={Path(sys.executable).parent}", "READY=ready"],
        **{"capture_output": True, "text": True, "cwd": folder, "check": False},
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return Shipped(folder, done.stdout)


def test_the_chain_adds_up(shipped):
    summary = json.loads(shipped.path("results/ingest/example/summary.json").read_text("utf-8"))
    composition = json.loads(
        shipped.path("results/fitsets/drag/composition.json").read_text("utf-8")
    )
    rows = pd.read_parquet(shipped.path("results/splits/rows.parquet"))
    dropped = pd.read_parquet(shipped.path("results/fitsets/drag/dropped.parquet"))
    fitset = pd.read_parquet(shipped.path("results/fitsets/drag/fitset.parquet"))
    assert summary["lines"] == summary["rows"] + summary["quarantined"] == len(rows)
    assert composition["input"] == len(rows) == len(fitset) + len(dropped)
    assert set(fitset.loc[fitset["kind"] == "ce", "family"]) == {"Drag & gesture"}
    assert "Drag & gesture" not in set(fitset.loc[fitset["kind"] == "anchor", "family"])
    assert len(summary["families"]) == 7


def test_no_held_out_source_is_trained_on(shipped):
    episodes = pd.read_parquet(shipped.path("results/splits/episodes.parquet"))
    fitset = pd.read_parquet(shipped.path("results/fitsets/drag/fitset.parquet"))
    held = episodes[episodes["side"] == "validation"]
    trained = episodes[episodes["task_id"].isin(set(fitset["task_id"]))]
    assert not {s for each in held["sources"] for s in each} & {
        s for each in trained["sources"] for s in each
    }


def test_drag_beats_the_base_on_its_family_by_a_clear_margin(shipped):
    base = pd.read_parquet(shipped.path("results/evaluation/base.parquet"))
    drag = pd.read_parquet(shipped.path("results/evaluation/drag.parquet"))
    assert list(base["row_id"]) == list(drag["row_id"])
    own = base["family"] == "Drag & gesture"
    assert base.loc[own, "task_id"].nunique() >= 5
    assert drag.loc[own, "nll"].mean() < 0.7 * base.loc[own, "nll"].mean()
    # Better on nearly every episode, not on average alone.
    difference = drag.loc[own, "nll"] - base.loc[own, "nll"]
    assert (difference.groupby(base.loc[own, "task_id"]).mean() < 0).mean() > 0.9


def test_the_printed_table_says_so(shipped):
    shown = shipped.said[shipped.said.index("Held-out rows, base -> drag") :]
    assert "| Drag & gesture (own) |" in shown and "drag beats the base" in shown


def test_answers_depend_on_the_screenshot(shipped):
    """Swapping screenshots within a family makes the recorded answers less likely."""
    ref = BaseRef.read(shipped.path("results/base/base.json"))
    folder = shipped.path(ref.path)
    model = load_model(BaseRef(**{**vars(ref), "path": str(folder)}))
    model = PeftModel.from_pretrained(model, shipped.path("results/adapters/drag")).eval()
    encoder = Encoder(load_processor(BaseRef(**{**vars(ref), "path": str(folder)})))
    rows, images = open_sources([shipped.path("results/ingest/example")])
    heldout = pd.read_parquet(shipped.path("results/splits/heldout.parquet"))
    worse = {}
    for family, lines in heldout.groupby("family"):
        chosen = [rows.get(row_id) for row_id in lines["row_id"].head(24)]
        shots = [decode(images.bytes(row.images[0])) for row in chosen]
        shuffled = shots[1:] + shots[:1]
        random.Random(0).shuffle(shuffled)
        worse[family] = float(
            _nll(model, encoder, chosen, shuffled) - _nll(model, encoder, chosen, shots)
        )
    assert max(worse.values()) > 0.02, worse


@torch.no_grad()
def _nll(model, encoder, rows, shots) -> float:
    total = 0.0
    for row, shot in zip(rows, shots, strict=True):
        encoded = encoder.encode(row.messages, row.target, [shot])
        logps = token_logps(target_logits(model, encoded, "cpu"), encoded.targets)
        total -= float(logps.mean())
    return total / len(rows)
