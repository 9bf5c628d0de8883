"""All arms of consensus training from one configuration, by the real Snakemake."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from tests.tiny_base import make_tiny_base
from tests.workflow.running import REPOSITORY, Workspace

pytestmark = pytest.mark.slow

ARMS = {
    "ring": {},
    "coordinator": {"consensus": "coordinator"},
    "gossip": {"consensus": "gossip", "topology": "chain"},
    "pooled_arm": {"pooled": True},
    "alone": {"local_only": True},
    "no_dual": {"dual": False},
    "by_query": {"partition": "anchor", "n_partitions": 2},
    "warm": {"init_from": "ring", "rounds": 1},
    "right_ones": {"trajectories": {"examples": "rsft", "adapt_roles": "nonsink"}},
    "planned": {"dry_run": True, "trajectories": {"examples": "sft"}},
}
SETTINGS = {
    "base": {"model": "base"},
    "sources": [
        {"name": "arithmetic", "format": "example_trajectories", "queries": 40, "rollouts": 4}
    ],
    "split": {"validation_fraction": 0.15},
    "recipe": {
        **{"method": "consensus", "rank": 2, "alpha": 4, "grad_clip": 1.0},
        **{"rounds": 2, "local_steps": 2, "batch_examples": 2},
    },
    "adapters": ARMS,
    "evaluation": {"generate": False, "bootstrap": 100},
    "resources": {"train": {"threads": 1}, "evaluate": {"threads": 1}},
}


def test_all_arms_of_one_configuration_and_only_what_changed_again(tmp_path):
    make_tiny_base(tmp_path / "base")
    workspace = Workspace(tmp_path, SETTINGS)
    run = workspace.run()
    trained = [name for name in ARMS if name != "planned"]
    assert run.jobs["train"] == len(trained) and run.jobs["arms"] == run.jobs["report"] == 1, run
    assert run.jobs["fitset"] == len(ARMS)

    # A dry run has its fit set and composition, and nothing else.
    made = json.loads(workspace.path("results/fitsets/planned/composition.json").read_text())
    assert set(made["nodes"]) == {f"seat_{n}" for n in range(4)} and made["plan"]["rows"] == 0
    assert not workspace.path("results/adapters/planned").exists()
    asked = workspace.run("results/adapters/planned", check=False)
    assert "adapters.planned is a dry run" in asked.output

    arms = pd.read_parquet(workspace.path("results/tables/arms.parquet")).set_index("adapter")
    assert list(arms.index) == ["base", *trained]
    assert arms["nll"].notna().all() and (arms["rows"] == arms["rows"].iloc[0]).all()
    assert arms["right"].between(0, 1).all() and (arms["right_rows"] > 0).all()
    assert arms.loc["ring", "nll"] == pytest.approx(arms.loc["coordinator", "nll"], abs=1e-5)
    assert arms.loc["gossip", "deploy"] == arms.loc["alone", "deploy"] == "per-node"
    assert arms.loc["alone", "bytes_sent"] == 0 < arms.loc["ring", "bytes_per_node"]
    assert arms.loc["right_ones", "nodes"] == 3
    assert "coordinator" in workspace.path("results/tables/arms.md").read_text()
    page = workspace.path("results/report.html").read_text()
    assert "residuals and communication by round" in page and "gossip on a chain" in page
    figure = workspace.path("results/figures/consensus.svg").read_text()
    assert "primal residual (normalised)" in figure
    card = workspace.path("results/cards/gossip.md").read_text()
    assert "serve each agent with its own" in card and "Held-out evaluation" in card

    assert workspace.run().jobs == {}
    # One arm's setting: it alone is trained, and those that are branched from it.
    workspace.configure({"adapters": {"ring": {"rho": 0.05}}})
    run = workspace.run("results/tables/arms.csv")
    assert run.jobs["train"] == 2 and run.jobs["fitset"] == 0, run
    # How a run is carried out changes nothing.
    workspace.configure({"training": {"processes": 2, "save_minutes": 1}})
    assert workspace.run("results/tables/arms.csv").jobs["train"] == 0
    said = subprocess.run(
        [sys.executable, "-m", "adaptermill", "status"],
        cwd=workspace.folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    ).stdout
    assert said.count(" fresh") == len(trained), said
