"""What Snakemake's own flags do here, and what none of them can do: make a wrong adapter fresh."""

import pytest

from tests.staleness.mill import Mill

pytestmark = pytest.mark.slow

FORM = "results/adapters/form"


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Mill:
    """Two adapters, one branched from the other, and their evaluations."""
    made = Mill.make(tmp_path_factory.mktemp("flags"))
    adapters = {"form": {"families": ["Form transaction"]}, "text": {"init_from": "form"}}
    made.settings["adapters"] = adapters
    made.configure({})
    assert made.build().jobs["train"] == 2
    return made


def test_forced_training_really_trains(small: Mill):
    run = small.build(FORM, "--forcerun", "train")
    assert small.trained(run) == ["form"] and run.jobs["publish_adapter"] == 1, run
    run = small.build("-R", "train")
    assert small.trained(run) == ["form", "text"], run
    assert sum(small.build().jobs.values()) == 0


def test_a_forced_stage_with_the_same_outcome_trains_nothing(small: Mill):
    run = small.build("-R", "split")
    assert run.jobs["split"] == 1 and run.jobs["train"] == run.jobs["evaluate"] == 0, run


@pytest.mark.parametrize("triggers", [("mtime",), ("mtime", "code", "input", "params")])
def test_other_triggers_find_nothing_to_do(small: Mill, triggers):
    run = small.build("--rerun-triggers", *triggers)
    assert run.jobs["train"] == run.jobs["evaluate"] == 0, run


def test_touched_outputs_do_not_hide_a_change(small: Mill):
    """`--touch` says that all is up to date; a setting of selection and one of training are not."""
    small.configure({"adapters": {"form": {"limit": 6}, "text": {"learning_rate": 5e-4}}})
    small.build("--touch")
    known = small.status()
    assert known["form"]["state"] == "undecided"
    assert "limit 8 -> 6" in known["form"]["causes"]
    run = small.build("--rerun-triggers", "mtime")
    assert small.trained(run) == ["form", "text"], run
    assert small.published("form")["rows"]["ce"] == 6
    small.configure({"adapters": {"form": {"limit": 8}, "text": {"learning_rate": 1e-3}}})
    run = small.build()
    assert run.jobs["train"] == run.jobs["evaluate"] == 0, run


def test_until_stops_before_training(small: Mill):
    small.configure({"adapters": {"form": {"limit": 5}}})
    run = small.build("--until", "fitset")
    assert run.jobs["fitset"] >= 1 and run.jobs["train"] == 0, run
    known = small.status()
    assert known["form"]["state"] == "stale" and "limit 8 -> 5" in known["form"]["causes"]
    assert any("removed in Form transaction" in cause for cause in known["form"]["causes"])
    assert small.trained(small.build()) == ["form", "text"]


def test_a_dry_run_changes_nothing_that_is_finished(small: Mill):
    small.configure({"adapters": {"form": {"limit": 8}}})
    run = small.build("-n")
    assert sum(run.jobs.values()) == 0, run
    run = small.build()
    assert run.jobs["train"] == run.jobs["evaluate"] == 0, run


def test_prune_removes_what_nothing_needs_and_nothing_else(small: Mill):
    leftover = small.path("results/.store/adapters/.0123.4567.tmp/part")
    leftover.parent.mkdir()
    leftover.write_text("half", encoding="utf-8")
    state = small.path("results/.work/training/feedfeedfeedfeed/step_1.pt")
    state.parent.mkdir(parents=True)
    state.write_text("state", encoding="utf-8")
    old = small.path("results/.store/references/feedfeedfeedfeed/reference.json")
    old.parent.mkdir(parents=True)
    old.write_text('{"base": "another", "code": "another"}', encoding="utf-8")
    store = small.path("results/.store/adapters")
    wanted = set(small.keys().values())
    assert wanted < {path.name for path in store.iterdir()}  # those of other settings
    shown = small.command("prune")
    assert "feedfeedfeedfeed" in shown.stdout and "--yes" in shown.stdout
    assert leftover.is_file() and state.is_file()
    assert small.command("prune", "--yes").returncode == 0
    assert {path.name for path in store.iterdir()} == wanted
    assert not state.parent.exists() and not old.parent.exists()
    assert list(old.parent.parent.glob("*/*.parquet"))  # those of now
    assert sum(small.build().jobs.values()) == 0
    assert "0 things" in small.command("prune").stdout


def test_prune_keeps_the_store_while_keys_are_not_known(small: Mill):
    small.configure({"adapters": {"form": {"limit": 7}}})
    before = sorted(path.name for path in small.path("results/.store/adapters").iterdir())
    pruned = small.command("prune", "--yes")
    assert "undecided: form, text" in pruned.stdout
    assert sorted(path.name for path in small.path("results/.store/adapters").iterdir()) == before
    small.configure({"adapters": {"form": {"limit": 8}}})
    run = small.build()
    assert run.jobs["train"] == run.jobs["evaluate"] == 0, run


def test_all_output_deleted_is_made_again(small: Mill):
    before = small.keys()
    small.run("--delete-all-output")
    assert not small.path(FORM).exists()
    run = small.build()
    assert small.trained(run) == ["form", "text"] and run.jobs["evaluate"] == 3, run
    assert small.keys() == before
