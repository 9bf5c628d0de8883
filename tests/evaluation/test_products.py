"""Protects the tables of fit sets, training, splits and quarantine: counts as the products say."""

import json

import pandas as pd
import pytest

from adaptermill.fitsets.composition import composition
from adaptermill.fitsets.plan import Line
from adaptermill.splits import split_episodes
from scripts import tables
from tests.evaluation.building import FAMILIES, drawn, written

NAMES = (
    *("evaluation", "comparison", "summary", "replicates", "epochs"),
    *("fitsets", "training", "splits", "quarantine"),
)

REPLICATES = {"replicates": [["drag", "drag_again"]]}


def fitset_row(number, kind, family):
    return {
        "row_id": f"main/{number}/0",
        "kind": kind,
        "family": family,
        "op": "click",
        "variant": "plain",
        "target_hash": "t",
        "content_hash": f"{number}",
        "pair_id": None,
        "judge": None,
    }


@pytest.fixture
def folder(tmp_path):
    """The tables of a small build, made by the command line as the workflow calls it."""
    rows = [fitset_row(n, "ce" if n < 3 else "anchor", FAMILIES[n > 2]) for n in range(5)]
    dropped = pd.DataFrame({"reason": ["too_long", "held_out", "held_out"]})
    plan = [Line(n // 3, n, "main/0/0", "ce") for n in range(6)]
    made = composition("drag", 8, pd.DataFrame(rows), dropped, plan, 2)
    record = {
        "adapter": "drag",
        "method": "anchored",
        "key": "0f3a",
        "base": {"model": "tiny", "revision": None, "identity": "base"},
        "recipe": {"rank": 4, "alpha": 8.0, "learning_rate": 1e-4, "seed": 0, "init_from": None},
        "rows": {"anchor": 2, "ce": 4},
        "steps": 3,
        "telemetry": {"minutes": 1.5, "device": "cpu", "dtype": "float32"},
    }
    episodes = pd.DataFrame(
        {
            "task_id": ["a", "b", "chain-0"],
            "variant": ["plain", "plain", "chain"],
            "sources": [["a"], ["b"], ["a", "b"]],
            "families": [["Navigation"], ["Text entry"], ["Navigation", "Text entry"]],
            "rows": [3, 4, 7],
        }
    )
    settings = {"group_by": "source", "validation_fraction": 0.0, "test_fraction": 0.0}
    episodes, _ = split_episodes(episodes, {**settings, "mixed_chains": "exclude"})
    episodes.loc[1, "side"] = "validation"
    episodes.loc[2, "side"] = "mixed"
    episodes.to_parquet(tmp_path / "episodes.parquet")
    files = {
        "composition.json": made,
        "drag/training.json": record,
        "leaks.json": {
            "duplicates": {"text": {"heldout_rows": 2, "examples": []}},
            "near_duplicates": {"compared": {"text": {"heldout_rows": 3, "examples": []}}},
        },
        "summary.json": {
            "sources": {
                "main": {"lines": 12, "rows": 9, "quarantined": 3, "reasons": {"json_syntax": 3}},
                "more": {"lines": 5, "rows": 5, "quarantined": 0, "reasons": {}},
            }
        },
        "spec.json": {
            "settings": {"families": FAMILIES, "bootstrap": 200, "weak_below": 5, **REPLICATES}
        },
    }
    (tmp_path / "drag").mkdir()
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value))
    trained = (drawn("drag", 1, FAMILIES[0]), drawn("drag_again", 1, FAMILIES[0]))
    made = written(tmp_path, drawn("base", 1), *trained)
    given = {
        "--spec": "spec.json",
        "--fitsets": "composition.json",
        "--training": "drag",
        "--episodes": "episodes.parquet",
        "--leaks": "leaks.json",
        "--ingest-summary": "summary.json",
        "--output-folder": "tables",
    }
    paths = [str(p) for name, value in given.items() for p in (name, tmp_path / value)]
    tables.main([*paths, "--evaluations", *made])
    return tmp_path / "tables"


def test_every_table_is_there_in_three_forms_that_agree(folder):
    assert {path.name for path in folder.iterdir()} == {
        f"{name}.{kind}" for name in NAMES for kind in ("csv", "parquet", "md")
    }
    for name in NAMES:
        stored = pd.read_parquet(folder / f"{name}.parquet")
        read = pd.read_csv(folder / f"{name}.csv", float_precision="round_trip")
        pd.testing.assert_frame_equal(read, stored, check_dtype=False)
        assert (folder / f"{name}.md").read_text().startswith("# ")


def test_whole_numbers_stay_whole_in_csv(folder):
    lines = (folder / "splits.csv").read_text().splitlines()
    assert "episodes,validation,all,,1,4" in lines
    assert "episodes,train,family,Navigation,1," in lines
    assert "leaks,,exact,text,,2" in lines
    assert "leaks,,near,text,,3" in lines


def test_a_chain_counts_for_each_of_its_families(folder):
    splits = pd.read_csv(folder / "splits.csv")
    mixed = splits[(splits["side"] == "mixed") & (splits["by"] == "family")]
    assert dict(zip(mixed["name"], mixed["episodes"], strict=True)) == {
        "Navigation": 1,
        "Text entry": 1,
    }


def test_fit_sets_add_up(folder):
    fitsets = pd.read_csv(folder / "fitsets.csv")
    by_part = fitsets.groupby("part")["rows"].sum()
    assert by_part["input"] == by_part["kept"] + by_part["dropped"] == 8
    assert by_part["family"] == by_part["op"] == by_part["kept"] == 5
    text = (folder / "fitsets.md").read_text()
    assert "held_out" in text
    assert "too_long" in text
    assert "0 + 3" in text  # anchor + ce rows of its own family


def test_training_shows_the_held_out_loss_on_the_adapter_s_own_families(folder):
    line = pd.read_csv(folder / "training.csv").iloc[0]
    evaluation = pd.read_csv(folder / "evaluation.csv")
    nll = evaluation[(evaluation["family"] == FAMILIES[0]) & (evaluation["metric"] == "nll")]
    nll = nll.set_index("adapter")["value"]
    assert line["heldout_ce"] == pytest.approx(nll["drag"])
    assert line["heldout_ce_base"] == pytest.approx(nll["base"])
    assert (line["ce_rows"], line["anchor_rows"], line["steps"]) == (4, 2, 3)
    assert (line["minutes"], line["rank"], line["adapter_key"]) == (1.5, 4, "0f3a")


def test_a_source_without_quarantine_is_shown(folder):
    quarantine = pd.read_csv(folder / "quarantine.csv")
    assert list(quarantine["source"]) == ["main", "more"]
    assert list(quarantine["count"]) == [3, 0]
    assert quarantine["reason"].isna().tolist() == [False, True]


def test_a_missing_product_is_named(tmp_path):
    made = written(tmp_path, drawn("base", 1))
    with pytest.raises(tables.UserError, match=r"training\.json is missing"):
        tables.main(
            ["--evaluations", *made, "--training", str(tmp_path), "--output-folder", str(tmp_path)]
        )
