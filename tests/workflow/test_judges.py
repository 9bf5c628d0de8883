"""Adapters with a judge and without, built by the real Snakemake: who is judged, who is trained."""

import json

import pyarrow.parquet as pq
import pytest

from adaptermill import status
from adaptermill.pipeline import Pipeline
from tests.workflow.running import REPOSITORY, SMALL, Workspace, overlay

pytestmark = pytest.mark.slow

JUDGES = {
    "format": {"kind": "action_format"},
    "gate": {"kind": "episode_success"},
    "unused": {"kind": "recorded"},
}
ADAPTERS = {
    "drag": {"families": ["Drag & gesture"], "judge": "format", "beta": 0},
    "io": {"families": ["Out-of-page I/O"], "beta": 0},
}
BOTH = ["results/adapters/drag", "results/adapters/io"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    settings = overlay(SMALL, {"judges": JUDGES, "recipe": {"limit": 8}})
    settings["adapters"] = ADAPTERS
    space = Workspace(tmp_path_factory.mktemp("judged"), settings)
    first = space.run(*BOTH)
    assert first.jobs["judge"] == 1 and first.jobs["train"] == 2
    return space


def states(space, monkeypatch):
    monkeypatch.chdir(space.folder)
    found = status.statuses(Pipeline(space.settings, None, REPOSITORY, writes=False))
    return {each.name: (each.state, "; ".join(each.causes)) for each in found}


def fitset(space, adapter):
    return pq.read_table(space.path(f"results/fitsets/{adapter}/fitset.parquet")).to_pylist()


def test_only_the_judged_adapter_carries_verdicts(built):
    summary = json.loads(built.path("results/judged/format.json").read_text())
    assert summary["verdicts"] == {"well_formed": summary["examples"]}
    assert {(row["reward"], row["judge"]) for row in fitset(built, "drag")} == {
        (1.0, summary["fingerprint"])
    }
    assert {(row["reward"], row["judge"]) for row in fitset(built, "io")} == {(None, None)}
    stored = built.path(f"results/.store/judged/{summary['fingerprint']}/verdicts.jsonl")
    assert stored.read_text().count("\n") == summary["examples"]


def test_nothing_runs_when_nothing_changed(built):
    assert not built.run(*BOTH).jobs


def test_another_judge_that_keeps_the_same_rows_trains_nothing(built, monkeypatch):
    built.configure({"judges": {"format": {"coordinates": "any"}}})
    assert states(built, monkeypatch)["drag"][0] == "undecided"
    assert "coordinates viewport -> any" in states(built, monkeypatch)["drag"][1]
    assert states(built, monkeypatch)["io"] == ("fresh", "")
    before = fitset(built, "drag")
    run = built.run(*BOTH)
    assert run.jobs == {"judge": 1, "fitset": 1, "publish_adapter": 1}
    after = fitset(built, "drag")
    assert {row["judge"] for row in before} != {row["judge"] for row in after}
    assert [row["row_id"] for row in before] == [row["row_id"] for row in after]


def test_a_judge_that_rejects_rows_trains_its_adapter_and_no_other(built):
    ops = {row["op"] for row in fitset(built, "drag")}
    kept = sorted(ops - {"done"})
    assert "done" in ops, "the example's episodes end so"
    built.configure({"judges": {"format": {"actions": kept}}})
    run = built.run(*BOTH)
    assert run.jobs == {"judge": 1, "fitset": 1, "train": 1, "publish_adapter": 1}
    assert {row["op"] for row in fitset(built, "drag")} <= set(kept)
    dropped = pq.read_table(built.path("results/fitsets/drag/dropped.parquet")).to_pylist()
    reasons = {line["reason"] for line in dropped if line["stage"] == "judge"}
    assert reasons == {"judge_rejected"}
    # And back again: what was made for those settings is still there.
    built.configure({"judges": {"format": {"actions": None}}})
    assert built.run(*BOTH).jobs == {"judge": 1, "fitset": 1, "publish_adapter": 1}
    assert "0 judged" in built.path("results/logs/judge/format.log").read_text()


def test_a_judge_that_nobody_has_is_refused_and_a_missing_table_is_made_again(built):
    refused = built.run("results/judged/unused.parquet", check=False)
    assert refused.status and "nothing asks for its verdicts" in refused.output
    built.path("results/judged/format.parquet").unlink()
    run = built.run(*BOTH)
    assert run.jobs["judge"] == 1 and "train" not in run.jobs
    assert "0 judged" in built.path("results/logs/judge/format.log").read_text()
