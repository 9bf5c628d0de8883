"""What is trained and evaluated again after which change: the table of docs/staleness.md.

Changes that must train nothing are made together: one build proves all of them.
"""

import json
import os
import shutil

import pyarrow.parquet as pq
import pytest

from adaptermill.example.episodes import draw_episode
from adaptermill.splits import fraction_key, side_of_episode
from tests.staleness.mill import EPISODES, SEED, SIX, VALIDATION, Mill, find_episode

pytestmark = pytest.mark.slow


def counts(run) -> tuple[int, int]:
    return run.jobs["train"], run.jobs["evaluate"]


def test_nothing_changed(mill: Mill):
    run = mill.build()
    assert sum(run.jobs.values()) == 0 and "Nothing to be done" in run.output, run
    assert {state["state"] for state in mill.status().values()} == {"fresh"}


def test_what_changes_no_meaning_trains_and_evaluates_nothing(mill: Mill):
    """Touched data and code, other spellings, and what only says how work is done."""
    for path in [*mill.data.rglob("*"), *mill.repository.rglob("*.py")]:
        os.utime(path)  # as after a fresh `git checkout` or a copy
    mill.edit("adaptermill/training/objectives.py", "\nimport torch\n", "\n# Why.\nimport torch\n")
    mill.edit("scripts/train.py", "def main(", "# The command.\n\n\ndef main(")
    mill.edit("scripts/evaluate.py", "def main(", "# The command.\n\n\ndef main(")
    adapters = {name: dict(reversed(SIX[name].items())) for name in reversed(SIX)}
    adapters["form"] |= {"learning_rate": "1e-3", "dropout": 0.05, "alpha": 4.0}
    mill.settings["adapters"] = adapters
    mill.configure(
        {
            "training": {"processes": 2, "save_every": 7, "save_minutes": 3, "keep_curve": False},
            "resources": {"train": {"mem_mb": 1000}},
            "recipe": {"learning_rate": 0.001, "beta": 0.1},
        }
    )
    run = mill.build()
    assert counts(run) == (0, 0), run
    mill.configure({"training": {"processes": 1}})


def test_rows_that_no_adapter_takes_train_and_evaluate_nothing(mill: Mill):
    """An episode that is all quarantined, and one whose rows are copies of others."""
    mill.write("broken-s0001", {"rows.jsonl": b'{"task_id": \n', "episode.json": b"{}"})
    original = next(
        episode
        for episode in (draw_episode(SEED, index) for index in range(EPISODES))
        if "~" not in episode.task_id
        and not episode.task_id.startswith("chain")
        and side_of_episode([episode.task_id], VALIDATION) == "train"
        and fraction_key([episode.task_id]) < 0.5
    )
    # The name sorts last and falls outside the fraction: the original stays the one that is kept.
    names = (f"{original.task_id[:-5]}z{number:04d}" for number in range(100))
    copy = next(
        name
        for name in names
        if side_of_episode([name], VALIDATION) == "train" and fraction_key([name]) > 0.5
    )
    files = original.files(0)
    for name in ("rows.jsonl", "episode.json"):
        files[name] = files[name].replace(original.task_id.encode(), copy.encode())
    mill.write(copy, files)
    run = mill.build()
    assert counts(run) == (0, 0), run
    summary = json.loads(mill.path("results/ingest/main/summary.json").read_text("utf-8"))
    assert summary["quarantined"] == 1
    mill.remove_episode(copy)
    mill.remove_episode("broken-s0001")


def test_a_training_episode_trains_the_adapters_whose_rows_changed(mill: Mill):
    """One outside the fraction 0.5; `form` and `text` have it in their anchor pools."""
    before = mill.keys() if mill.build(*mill.decided) else {}
    index = find_episode("Drag & gesture", held_out=False, half=False)
    task_id = mill.add_episode(index)
    assert {state["state"] for state in mill.status().values()} == {"undecided"}
    assert "files of source main changed" in mill.status()["drag"]["causes"][0]
    mill.build(*mill.decided)
    known = mill.status()
    rows = len(draw_episode(SEED, index).rows)
    assert f"{rows} rows added in Drag & gesture" in known["drag"]["causes"]
    changed = {name for name in known if known[name]["key"] != before[name]}
    assert {"drag", "full"} <= changed and "half" not in changed
    run = mill.build()
    assert set(mill.trained(run)) == changed == set(mill.evaluated(run)), run
    mill.remove_episode(task_id)
    assert counts(mill.build()) == (0, 0)
    assert mill.keys() == before


def test_a_held_out_episode_is_only_evaluated(mill: Mill):
    mill.add_episode(find_episode("Navigation", held_out=True))
    run = mill.build()
    assert counts(run) == (0, 7), run


def test_settings_train_their_adapters_and_those_branched_from_them(mill: Mill):
    """Two changes at once: `pooled` gets another result, and `form` another dropout."""
    mill.configure({"adapters": {"pooled": {"learning_rate": 2e-3}, "form": {"dropout": 0}}})
    known = mill.status()
    assert known["pooled"]["causes"] == ["learning_rate 0.001 -> 0.002"]
    assert known["form"]["causes"] == ["dropout 0.05 -> 0"]
    assert known["drag"]["causes"] == known["text"]["causes"] == ["pooled changed"]
    run = mill.build()
    assert mill.trained(run) == ["drag", "form", "pooled", "text"], run
    assert mill.evaluated(run) == ["drag", "form", "pooled", "text"], run


def test_changed_back_while_snakemake_forgot_everything(mill: Mill):
    mill.configure({"adapters": {"pooled": {"learning_rate": 1e-3}, "form": {"dropout": 0.05}}})
    mill.forget()
    run = mill.build()
    assert counts(run) == (0, 0), run
    for name in mill.names:
        assert mill.published(name)["key"] == mill.keys()[name]


def test_a_judge_trains_its_adapters_only_where_it_keeps_other_rows(mill: Mill):
    mill.configure({"judges": {"format": {"coordinates": "any"}}})
    run = mill.build()
    assert run.jobs["judge"] == 1 and counts(run) == (0, 0), run
    ops = pq.read_table(mill.path("results/fitsets/form/fitset.parquet"))["op"].to_pylist()
    assert "done" in ops
    mill.configure({"judges": {"format": {"actions": sorted({*ops} - {"done"})}}})
    run = mill.build()
    assert mill.trained(run) == mill.evaluated(run) == ["form"], run
    mill.configure({"judges": {"format": {"coordinates": "viewport", "actions": None}}})
    assert counts(mill.build()) == (0, 0)


def test_published_products_deleted(mill: Mill):
    shutil.rmtree(mill.path("results/adapters/drag"))
    mill.path("results/evaluation/drag.parquet").unlink()
    run = mill.build()
    assert counts(run) == (0, 0), run
    assert mill.path("results/adapters/drag/adapter_model.safetensors").is_file()
    assert mill.path("results/evaluation/drag.parquet").is_file()


def test_logic_of_evaluation_evaluates_all_and_trains_none(mill: Mill):
    path = mill.repository / "adaptermill/evaluation/teacher_forced.py"
    before = path.read_text(encoding="utf-8")
    path.write_text(before + "\n\nEDITED = 1\n", encoding="utf-8")
    run = mill.build()
    assert counts(run) == (0, 7), run
    path.write_text(before, encoding="utf-8")
    assert counts(mill.build()) == (0, 0)


def test_logic_of_training_trains_all(mill: Mill):
    path = mill.repository / "adaptermill/training/objectives.py"
    before = path.read_text(encoding="utf-8")
    path.write_text(before + "\n\nEDITED = 1\n", encoding="utf-8")
    known = mill.status()
    assert all(state["state"] == "stale" for state in known.values())
    assert "training code changed: training/objectives.py" in known["form"]["causes"]
    run = mill.build(*mill.adapters)
    assert counts(run) == (6, 0), run
    path.write_text(before, encoding="utf-8")
    assert counts(mill.build()) == (0, 0)


def test_trusted_code_trains_nothing_and_is_said(mill: Mill):
    """A patched log line, say; what is trained meanwhile goes by the fingerprint there was."""
    path = mill.repository / "adaptermill/training/objectives.py"
    before = path.read_text(encoding="utf-8")
    path.write_text(before + "\n\nEDITED = 2\n", encoding="utf-8")
    trusting = {"training": {"trust_code": True}, "adapters": {"form": {"dropout": 0.1}}}
    mill.configure(trusting)
    run = mill.build()
    assert mill.trained(run) == mill.evaluated(run) == ["form"], run
    assert mill.published("form")["code_trusted"] and not mill.published("half")["code_trusted"]
    card = mill.path("results/adapters/form/README.md").read_text(encoding="utf-8")
    assert "trust_code: true" in card
    path.write_text(before, encoding="utf-8")
    mill.configure({"training": {"trust_code": False}, "adapters": {"form": {"dropout": 0.05}}})
    assert counts(mill.build()) == (0, 0)


def test_versions_enter_keys_where_they_are_asked_for(mill: Mill):
    mill.configure({"provenance": {"include_versions": ["torch"]}})
    known = mill.status()
    assert all(state["state"] == "stale" for state in known.values())
    assert known["form"]["causes"][0].startswith("torch null -> 2")
    assert mill.trained(mill.build("results/adapters/form")) == ["form"]
    mill.configure({"provenance": {"include_versions": []}})
    assert counts(mill.build()) == (0, 0)
