"""Builds that fail, are killed, copied or shared: what is finished stays, and nothing is wrong."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from snakemake.persistence.file import FilePersistence

from tests.staleness.mill import Mill

pytestmark = pytest.mark.slow


def counts(run) -> tuple[int, int]:
    return run.jobs["train"], run.jobs["evaluate"]


def test_a_failed_adapter_beside_good_ones_then_mended(mill: Mill):
    """One whose rows cannot be chosen, and one whose training refuses; `form` is built."""
    mill.configure(
        {
            "adapters": {
                "nothing": {"families": ["No such family"]},
                "wild": {"families": ["Navigation"], "learning_rate": 1e30, "max_steps": 3},
                "form": {"dropout": 0.1},
            }
        }
    )
    run = mill.build(check=False)
    assert run.status != 0 and "no row has the family 'No such family'" in run.output, run
    assert run.jobs["publish_adapter"] >= 1 and mill.status()["form"]["state"] == "fresh", run
    assert mill.published("form")["recipe"]["dropout"] == 0.1
    assert not mill.path("results/adapters/wild").exists()
    mill.configure(
        {
            "adapters": {
                "nothing": {"families": ["Navigation"]},
                "wild": {"learning_rate": 1e-3, "max_steps": 1, "seed": 3},
            }
        }
    )
    run = mill.build()
    assert mill.trained(run) == ["nothing", "wild"], run
    assert set(mill.evaluated(run)) == {"nothing", "wild"}, run
    del mill.settings["adapters"]["nothing"], mill.settings["adapters"]["wild"]
    mill.configure({"adapters": {"form": {"dropout": 0.05}}})
    assert counts(mill.build()) == (0, 0)


def test_an_adapter_by_another_name_is_not_trained_again(mill: Mill):
    mill.configure({"adapters": {"copy": dict(mill.settings["adapters"]["form"])}})
    run = mill.build()
    assert counts(run) == (0, 0), run
    assert mill.published("copy")["key"] == mill.published("form")["key"]
    del mill.settings["adapters"]["copy"]
    mill.configure({})
    assert counts(mill.build()) == (0, 0)


def test_a_source_that_is_gone_is_noticed_though_snakemake_forgot(mill: Mill, tmp_path):
    """No file is newer than before: the set of sources itself must decide."""
    one = mill.settings["sources"]
    shutil.copytree(next(mill.data.iterdir()), tmp_path / "other" / "extra-task-s0001")
    text = (tmp_path / "other/extra-task-s0001/rows.jsonl").read_text("utf-8")
    text = re.sub(r'"task_id": "[^"]*"', '"task_id": "extra-task-s0001"', text)
    text = text.replace("Interactive", "Other interactive")
    (tmp_path / "other/extra-task-s0001/rows.jsonl").write_text(text, "utf-8")
    shutil.copytree(tmp_path / "other/extra-task-s0001", tmp_path / "o" / "extra-task-s0001")
    two = [*one, {"name": "other", "format": "replay", "path": str(tmp_path / "o")}]
    before = mill.keys()
    mill.configure({"sources": two})
    mill.build(*mill.decided)
    assert mill.keys()["full"] != before["full"]
    mill.configure({"sources": one})
    mill.forget()
    run = mill.build()
    assert counts(run) == (0, 0), run
    assert mill.keys() == before


def test_killed_while_training_then_unlocked(mill: Mill):
    mill.configure({"adapters": {"form": {"seed": 5}, "full": {"dropout": 0.2}}})
    started = subprocess.Popen(
        mill.arguments(),
        **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True},
        **{"cwd": mill.folder, "env": {**os.environ, "PYTHONPATH": ""}},
    )
    for line in started.stdout:
        if "Training adapter" in line:
            break
    time.sleep(1)
    started.send_signal(signal.SIGKILL)
    started.wait()
    assert "unlock" in mill.run(check=False).output
    # What Snakemake cannot lock, neither prune nor a dry run may touch.
    refused = mill.command("prune", "--yes")
    assert refused.returncode == 2 and "--unlock" in refused.stderr
    mill.run("--unlock")
    # Not `build`: a trainer that outlived Snakemake may finish after `status` called it stale.
    run = mill.run()
    assert {"form", "full"} <= {*mill.evaluated(run)}, run
    assert {state["state"] for state in mill.status().values()} == {"fresh"}, run
    assert sum(mill.build().jobs.values()) == 0
    assert mill.published("form")["recipe"]["seed"] == 5
    mill.configure({"adapters": {"form": {"seed": 0}, "full": {"dropout": 0.05}}})
    assert counts(mill.build()) == (0, 0)


def test_a_trainer_that_outlived_snakemake_is_believed(mill: Mill):
    """What it left whole is neither trained again nor kept from being evaluated."""
    mill.configure({"adapters": {"form": {"dropout": 0.17}}})
    mill.build("results/adapters/form")
    stored = f"results/.store/adapters/{mill.published('form')['key']}"
    persistence = FilePersistence(path=mill.path(".snakemake"))
    persistence._mark_incomplete(stored, None)
    assert mill.status()["form"]["state"] == "fresh"
    run = mill.build()
    assert (mill.trained(run), mill.evaluated(run)) == ([], ["form"]), run
    mill.configure({"adapters": {"form": {"dropout": 0.05}}})
    assert counts(mill.build()) == (0, 0)


def test_a_dry_run_beside_a_build_leaves_its_settings_alone(mill: Mill):
    """Jobs of the build read them: another configuration must not reach them half way."""
    spec = mill.path("results/.work/specs/train/form.json")
    before = spec.read_text(encoding="utf-8")
    lock = mill.path(".snakemake/locks/0.output.lock")
    lock.parent.mkdir(exist_ok=True)
    lock.write_text("results/adapters/form\n", encoding="utf-8")
    mill.configure({"adapters": {"form": {"dropout": 0.3}}})
    mill.run("-n", check=False)
    assert spec.read_text(encoding="utf-8") == before
    mill.configure({"adapters": {"form": {"dropout": 0.05}}})
    mill.run("--unlock")
    assert counts(mill.build()) == (0, 0)


def test_results_copied_to_another_folder(mill: Mill, tmp_path):
    """With new file times in any order, and without what Snakemake remembers."""
    copy = Mill.beside(mill.data.parent, tmp_path / "copy", mill.repository)
    copy.settings = mill.settings
    copy.configure({})
    shutil.copytree(mill.path("results"), tmp_path / "copy/results", copy_function=shutil.copyfile)
    assert {state["state"] for state in copy.status().values()} == {"fresh"}
    run = copy.build()
    assert counts(run) == (0, 0), run
    copy.configure({"adapters": {"form": {"dropout": 0.15}}})
    assert copy.trained(copy.build("results/adapters/form")) == ["form"]


def test_two_data_sets_from_one_checkout(mill: Mill, tmp_path):
    other = Mill.beside(mill.data.parent, tmp_path / "other", mill.repository)
    other.settings["sources"] = [{"name": "example", "format": "example", "episodes": 30}]
    other.settings["adapters"] = {"form": {"families": ["Form transaction"]}}
    other.configure({})
    assert other.trained(other.build("results/adapters/form")) == ["form"]
    assert other.status()["form"]["state"] == "fresh"
    assert sum(mill.build().jobs.values()) == 0


def test_adapters_that_branch_from_each_other_are_an_error_that_shows_it(mill: Mill):
    mill.configure({"adapters": {"pooled": {"init_from": "drag"}}})
    run = mill.run(check=False)
    assert run.status != 0 and "pooled -> drag -> pooled" in run.output, run
    assert mill.command("status").returncode == 2
    mill.configure({"adapters": {"pooled": {"init_from": None}}})
    assert sum(mill.build().jobs.values()) == 0
