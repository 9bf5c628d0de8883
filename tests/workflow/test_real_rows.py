"""Rows that a real browser agent left behind go through the same pipeline."""

import json

import pandas as pd
import pytest

from tests.workflow.running import SHARED, SMALL, Workspace, overlay

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SHARED / "replay").is_dir(), reason="no recorded episodes here"),
]


def test_recorded_episodes_make_an_adapter_and_a_table(tmp_path):
    """The example base reads real prompts of thousands of its tokens, screenshots and all."""
    change = {
        "sources": [{"name": "miniwob", "format": "replay", "path": str(SHARED / "replay")}],
        "split": {"validation_fraction": 0.05},
        "recipe": {"limit": 8, "anchor_ratio": 0.25},
    }
    workspace = Workspace(tmp_path, overlay(SMALL, change))
    run = workspace.run("results/adapters/drag", "results/tables/evaluation.csv")
    assert run.jobs["train"] == 1 and run.jobs["evaluate"] == 2, run
    summary = json.loads(workspace.path("results/ingest/miniwob/summary.json").read_text("utf-8"))
    assert (summary["lines"], summary["rows"], summary["quarantined"]) == (953, 953, 0)
    table = pd.read_csv(workspace.path("results/tables/evaluation.csv"))
    assert set(table["adapter"]) == {"base", "drag"}
    assert len(set(table["family"])) == 8  # the seven and all of them together
    nll = table[table["metric"] == "nll"].set_index(["adapter", "family"])["value"]
    assert nll.notna().all() and (nll["drag"] != nll["base"]).any()
