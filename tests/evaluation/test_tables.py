"""Protects the tables: true figures, nothing left out, nothing compared that must not be."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from adaptermill.errors import UserError
from adaptermill.evaluation import predictions as files
from adaptermill.evaluation.markdown import number
from adaptermill.evaluation.tables import (
    HeldOut,
    TableSettings,
    comparison_table,
    evaluation_table,
)
from scripts import tables
from tests.evaluation.building import FAMILIES, drawn, predictions, row, written

SETTINGS = TableSettings(families=FAMILIES, bootstrap=400, adapters=("pooled", "drag"))
COLUMNS = [
    *("adapter", "family", "metric", "value", "low", "high", "rows", "episodes", "weak"),
    *("split_hash", "base_hash", "adapter_key"),
]


@pytest.fixture
def made():
    return [
        drawn("drag", 1, FAMILIES[0], generated=True),
        drawn("pooled", 1, generated=True),
        drawn("base", 1, generated=True),
    ]


def test_the_evaluation_has_a_line_for_everything(made):
    found = evaluation_table(HeldOut(made, SETTINGS)).to_pandas()
    assert list(found.columns) == COLUMNS
    assert list(found["adapter"].unique()) == ["base", "pooled", "drag"]
    assert list(found["family"].unique()) == [*FAMILIES, "all"]
    assert len(found) == 3 * 4 * 13
    assert not found.duplicated(["adapter", "family", "metric"]).any()
    assert set(found["split_hash"]) == {"split"}
    assert set(found["base_hash"]) == {"base"}
    keys = found.groupby("adapter")["adapter_key"].first()
    assert keys["drag"] == "key of drag"
    assert keys["base"] is None or pd.isna(keys["base"])


def test_a_family_that_the_settings_do_not_name_is_shown_too(made):
    held_out = HeldOut(made, TableSettings(families=("Text entry",), bootstrap=200))
    assert held_out.families == ["Text entry", "Drag & gesture", "Navigation"]


def test_a_family_without_rows_is_a_line_without_a_value(made):
    found = evaluation_table(HeldOut(made, SETTINGS)).to_pandas()
    empty = found[found["family"] == "Text entry"]
    assert len(empty) == 3 * 13
    assert (empty["rows"] == 0).all()
    assert (empty["episodes"] == 0).all()
    assert empty["weak"].all()
    assert empty[["value", "low", "high"]].isna().all(axis=None)


def test_few_episodes_are_marked(made):
    found = evaluation_table(HeldOut(made, SETTINGS)).to_pandas()
    nll = found[(found["metric"] == "nll") & (found["adapter"] == "base")].set_index("family")
    assert (nll.loc["Navigation", "episodes"], nll.loc["Drag & gesture", "episodes"]) == (3, 15)
    assert nll.loc["Navigation", "weak"]
    assert not nll.loc["Drag & gesture", "weak"]
    assert nll.loc["all", "episodes"] == 18


@pytest.mark.parametrize(("episodes", "weak"), [(4, True), (5, False)])
def test_five_episodes_are_enough(episodes, weak):
    rows = [row(f"task-{number}", 0, [-1.0]) for number in range(episodes)]
    held_out = HeldOut([predictions("base", rows)], SETTINGS)
    assert held_out.figure("base", "nll").weak == weak


def test_one_episode_has_a_value_and_no_interval():
    held_out = HeldOut([predictions("base", [row("a", 0, [-2.0])])], SETTINGS)
    figure = held_out.figure("base", "nll")
    assert (figure.value, figure.low, figure.high, figure.weak) == (2.0, None, None, True)


def test_values_lie_in_their_intervals(made):
    found = evaluation_table(HeldOut(made, SETTINGS)).to_pandas().dropna(subset=["low"])
    assert len(found) > 80
    assert (found["low"] <= found["value"] + 1e-12).all()
    assert (found["value"] <= found["high"] + 1e-12).all()


def test_the_base_is_at_no_distance_from_itself(made):
    found = evaluation_table(HeldOut(made, SETTINGS)).to_pandas()
    anchors = found[(found["metric"] == "anchor") & (found["rows"] > 0)].set_index("adapter")
    assert (anchors.loc["base", ["value", "low", "high"]] == 0).all(axis=None)
    drag = anchors.loc["drag"].set_index("family")["value"]
    assert drag["Navigation"] == 0
    # every token more likely by one nat: exp(-1) + 1 - 1
    assert drag["Drag & gesture"] == pytest.approx(np.exp(-1), rel=1e-5)


def test_differences_are_paired(made):
    comparison = comparison_table(HeldOut(made, SETTINGS)).to_pandas()
    assert list(comparison.columns) == [
        *("adapter", "against", "family", "metric", "difference", *COLUMNS[4:]),
        "against_key",
    ]
    pairs = comparison[["adapter", "against"]].drop_duplicates().itertuples(index=False)
    assert [tuple(pair) for pair in pairs] == [
        ("pooled", "base"),
        ("drag", "base"),
        ("drag", "pooled"),
    ]
    nll = comparison[(comparison["adapter"] == "drag") & (comparison["metric"] == "nll")]
    own = nll[nll["family"] == "Drag & gesture"]
    # The same shift in every row: unpaired resamples would give an interval of some width.
    assert np.allclose(own[["difference", "low", "high"]], -1.0, atol=1e-6)
    other = nll[nll["family"] == "Navigation"]
    assert (other[["difference", "low", "high"]] == 0).all(axis=None)
    assert set(nll[nll["against"] == "pooled"]["against_key"]) == {"key of pooled"}


def test_a_difference_is_that_of_the_figures(made):
    held_out = HeldOut(made, SETTINGS)
    for metric in held_out.metrics:
        for families in ([FAMILIES[0]], None):
            change = held_out.difference("drag", "base", metric, families)
            one, other = (held_out.figure(n, metric, families) for n in ("drag", "base"))
            if metric == "args_match":  # clicks have none
                assert (change.value, change.rows) == (None, 0)
                continue
            assert change.value == pytest.approx(one.value - other.value)
            assert change.rows == one.rows


def test_figures_do_not_depend_on_what_else_is_in_the_table(made):
    alone = HeldOut(made[2:], SETTINGS).figure("base", "nll", [FAMILIES[0]])
    settings = TableSettings(families=("Text entry", "New"), bootstrap=400)
    assert HeldOut(made, settings).figure("base", "nll", [FAMILIES[0]]) == alone


@pytest.mark.parametrize("column", ["split_hash", "base_hash"])
def test_different_hashes_are_refused(made, column):
    rows = made[0].rows.to_pylist()
    with pytest.raises(UserError, match=column):
        HeldOut([made[2], predictions("drag", rows, **{column: "other"})], SETTINGS)


def test_different_rows_under_one_hash_are_refused(made):
    with pytest.raises(UserError, match="different rows"):
        HeldOut([made[2], drawn("drag", 1, episodes=17)], SETTINGS)


def test_one_name_twice_is_refused(made):
    with pytest.raises(UserError, match="two evaluations are named base"):
        HeldOut([made[2], made[2]], SETTINGS)


def test_no_held_out_rows_at_all():
    held_out = HeldOut([predictions("base", []), predictions("drag", [])], SETTINGS)
    found = evaluation_table(held_out).to_pandas()
    assert len(found) == 2 * 4 * 6
    assert (found["rows"] == 0).all()
    assert len(comparison_table(held_out)) == 4 * 6


def run(tmp_path, *made, **settings):
    tmp_path.mkdir(exist_ok=True)
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"settings": {"families": FAMILIES, "bootstrap": 300, **settings}}))
    given = ["--evaluations", *written(tmp_path, *made)]
    folder = tmp_path / "tables"
    tables.main(["--spec", str(spec), *given, "--output-folder", str(folder)])
    return folder


def test_the_three_forms_agree(tmp_path, made):
    folder = run(tmp_path, *made)
    for name, value in (("evaluation", "value"), ("comparison", "difference")):
        stored = pq.read_table(folder / f"{name}.parquet").to_pandas()
        read = pd.read_csv(folder / f"{name}.csv", float_precision="round_trip")
        pd.testing.assert_frame_equal(read, stored, check_dtype=False, check_exact=True)
        text = (folder / f"{name}.md").read_text()
        sections = text.split("### ")[1:]
        shown = stored.dropna(subset=[value])
        for line in shown.itertuples():
            cell = f"[{number(line.low)}, {number(line.high)}]"
            assert any(s.startswith(line.metric) and cell in s for s in sections), line
    evaluation = (folder / "evaluation.md").read_text()
    assert "(3 episodes" not in evaluation
    assert "3 episodes)" in evaluation
    assert "Text entry (0 rows, 0 episodes)" in evaluation
    assert "]*" in evaluation
    assert "`*`" in evaluation


def test_the_csv_is_the_same_whatever_the_order_of_files(tmp_path, made):
    one = (run(tmp_path / "a", *made, adapters=["drag", "pooled"]) / "evaluation.csv").read_bytes()
    other = run(tmp_path / "b", *made[::-1], adapters=["drag", "pooled"]) / "evaluation.csv"
    assert other.read_bytes() == one


def test_the_base_must_be_there(tmp_path, made):
    with pytest.raises(UserError, match=r"base\.parquet"):
        run(tmp_path, made[0])


def test_a_file_that_is_no_evaluation_is_named(tmp_path):
    path = tmp_path / "drag.parquet"
    with pytest.raises(UserError, match="is missing"):
        files.read(path)
    path.write_text("text")
    with pytest.raises(UserError, match="no Parquet"):
        files.read(path)
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(UserError, match="no evaluation"):
        files.read(path)
