"""Only what changed in meaning is trained again, whatever Snakemake remembers.

Each test runs the real pipeline on the example source with an example base of few steps and counts
the jobs that did work.
"""

import json
import shutil

import pytest

from tests.workflow.running import SMALL, Workspace, overlay

pytestmark = pytest.mark.slow

TARGETS = ("results/adapters/pooled", "results/adapters/drag")
ADAPTERS = {"adapters": {"pooled": {"beta": 0}, "drag": {"families": ["Drag & gesture"]}}}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Workspace:
    """Both adapters, built once; every test leaves them fresh again."""
    made = Workspace(tmp_path_factory.mktemp("staleness"), overlay(SMALL, ADAPTERS))
    run = made.run(*TARGETS)
    assert run.jobs["train"] == 2, run
    return made


def test_nothing_changed_runs_nothing(workspace):
    run = workspace.run(*TARGETS)
    assert sum(run.jobs.values()) == 0 and "Nothing to be done" in run.output, run


def test_a_deleted_adapter_is_published_from_the_store(workspace):
    shutil.rmtree(workspace.path("results/adapters/drag"))
    run = workspace.run(*TARGETS)
    assert (run.jobs["train"], run.jobs["publish_adapter"]) == (0, 1), run
    assert workspace.path("results/adapters/drag/adapter_model.safetensors").is_file()


def test_what_snakemake_forgot_trains_nothing(workspace):
    shutil.rmtree(workspace.path(".snakemake"))
    run = workspace.run(*TARGETS)
    assert run.jobs["train"] == 0, run


def test_a_setting_trains_its_adapter_and_changing_it_back_trains_none(workspace):
    before = key_of(workspace, "drag")
    workspace.configure({"adapters": {"drag": {"learning_rate": 2e-3}}})
    run = workspace.run(*TARGETS)
    assert run.jobs["train"] == 1 and key_of(workspace, "drag") != before, run
    workspace.configure({"adapters": {"drag": {"learning_rate": 1e-3}}})
    run = workspace.run(*TARGETS)
    assert run.jobs["train"] == 0 and key_of(workspace, "drag") == before, run


def test_settings_that_mean_the_same_or_change_no_result_train_none(workspace):
    workspace.configure(
        {
            "adapters": {"drag": {"learning_rate": "0.001", "dropout": 0.05}},
            "training": {"save_every": 16, "processes": 2},
        }
    )
    run = workspace.run(*TARGETS)
    assert run.jobs["train"] == 0, run
    workspace.configure({"training": {"processes": 1}})


def test_a_setting_changed_while_snakemake_forgot_everything_trains_just_that_one(workspace):
    shutil.rmtree(workspace.path(".snakemake"))
    workspace.configure({"adapters": {"drag": {"seed": 1}}})
    run = workspace.run(*TARGETS)
    assert run.jobs["train"] == 1, run
    workspace.configure({"adapters": {"drag": {"seed": 0}}})
    assert workspace.run(*TARGETS).jobs["train"] == 0


def key_of(workspace: Workspace, adapter: str) -> str:
    path = workspace.path(f"results/adapters/{adapter}/training.json")
    return json.loads(path.read_text(encoding="utf-8"))["key"]
