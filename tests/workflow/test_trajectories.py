"""From the example rollouts to trained adapters of seats, by the real Snakemake."""

import json

import pandas as pd
import pytest
from safetensors import safe_open

from tests.tiny_base import make_tiny_base
from tests.workflow.running import Workspace

pytestmark = pytest.mark.slow

PROMPT = [{"role": "user", "content": "{query}"}]
SETTINGS = {
    "base": {"model": "base"},
    "sources": [
        {"name": "arithmetic", "format": "example_trajectories", "queries": 16, "rollouts": 4}
    ],
    "split": {"validation_fraction": 0.2},
    "recipe": {
        **{"rank": 2, "alpha": 4, "epochs": 1, "learning_rate": 1e-3, "beta": 0, "limit": 16},
        "trajectories": {"examples": "rsft"},
    },
    "judges": {"truth": {"kind": "outcome"}},
    "adapters": {
        "all_seats": {},
        "judged": {"judge": "truth", "seed": 1},
        "judger": {"trajectories": {"examples": "sft", "seats": [3], "fit_prompt": PROMPT}},
    },
    "resources": {"train": {"threads": 1}},
}
ADAPTERS = [f"results/adapters/{name}" for name in ("all_seats", "judged", "judger")]


def test_example_rollouts_make_adapters_and_only_what_changed_is_made_again(tmp_path):
    make_tiny_base(tmp_path / "base")
    workspace = Workspace(tmp_path, SETTINGS)
    run = workspace.run(*ADAPTERS)
    assert run.jobs["example_trajectories"] == run.jobs["view_messages"] == 1
    assert (run.jobs["judge"], run.jobs["train"]) == (1, 3), run
    summary = json.loads(workspace.path("results/ingest/arithmetic/summary.json").read_text())
    assert (summary["lines"], summary["rows"], summary["quarantined"]) == (256, 256, 0)
    every = {0, 1, 2, 3}
    for name, seats in (("all_seats", every), ("judged", every), ("judger", {3})):
        fitset = pd.read_parquet(workspace.path(f"results/fitsets/{name}/fitset.parquet"))
        dropped = pd.read_parquet(workspace.path(f"results/fitsets/{name}/dropped.parquet"))
        assert len(fitset) == 16 and len(fitset) + len(dropped) == 256
        assert set(fitset["seat"]) == seats and fitset["advantage"].notna().all()
        record = json.loads(workspace.path(f"results/adapters/{name}/training.json").read_text())
        assert record["rows"] == {"ce": 16} and record["relative_change"] > 0
        weights = workspace.path(f"results/adapters/{name}/adapter_model.safetensors")
        with safe_open(weights, "pt") as file:
            assert any(file.get_tensor(key).abs().max() > 0 for key in file.keys())  # noqa: SIM118
    verdicts = pd.read_parquet(workspace.path("results/judged/truth.parquet"))
    judged = pd.read_parquet(workspace.path("results/fitsets/judged/fitset.parquet"))
    assert set(judged["judge"]) == set(verdicts["judge"]) and verdicts["reward"].nunique() == 2
    assert workspace.run(*ADAPTERS).jobs == {}

    # Another judge, which says the same: it is asked, and nothing is trained.
    workspace.configure({"judges": {"truth": {"compare": "math"}}})
    run = workspace.run(*ADAPTERS)
    assert (run.jobs["judge"], run.jobs["fitset"], run.jobs["train"]) == (1, 1, 0), run

    # Another prompt for one adapter: its rows are written again and it alone is trained.
    said = [{"role": "user", "content": "Question: {query}"}]
    workspace.configure({"adapters": {"judger": {"trajectories": {"fit_prompt": said}}}})
    run = workspace.run(*ADAPTERS)
    assert run.jobs["view_messages"] == run.jobs["fitset"] == run.jobs["train"] == 1, run
    assert run.jobs["ingest"] == run.jobs["measure"] == 0
