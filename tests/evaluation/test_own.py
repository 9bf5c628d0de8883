"""Protects the summary and the replicates: their figures are those worked out by hand."""

import numpy as np
import pytest

from adaptermill.config import load
from adaptermill.evaluation.own import summary_markdown, summary_table
from adaptermill.evaluation.replicates import replicates_markdown, replicates_table
from adaptermill.evaluation.tables import HeldOut, TableSettings
from tests.evaluation.building import FAMILIES, drawn

SETTINGS = TableSettings(families=FAMILIES, bootstrap=200)
OWN = {"drag": [FAMILIES[0]], "pooled": list(FAMILIES)}


@pytest.fixture
def held_out():
    names = [("base", None), ("pooled", None), ("drag", FAMILIES[0])]
    return HeldOut([drawn(name, 1, better) for name, better in names], SETTINGS)


def test_own_and_others_are_compared_over_all_their_rows(held_out):
    found = summary_table(held_out, OWN).to_pandas()
    nll = found[found["metric"] == "nll"].set_index(["adapter", "against", "part"])
    assert nll.loc[("drag", "base", "own"), "difference"] == pytest.approx(-1.0)
    assert nll.loc[("drag", "pooled", "own"), "difference"] == pytest.approx(-1.0)
    others = nll.loc[("drag", "base", "others")]
    assert others["difference"] == pytest.approx(0.0)
    assert others["families"] == f"{FAMILIES[1]}; {FAMILIES[2]}"
    # One that is trained on everything has no others, and is not compared with itself.
    assert set(nll.loc["pooled"].index) == {("base", "own")}
    assert set(found["split_hash"]) == {"split"} and set(found["base_hash"]) == {"base"}
    text = summary_markdown(summary_table(held_out, OWN))
    assert "own (Drag & gesture)" in text and "nll against pooled" in text


def test_an_adapter_of_unknown_families_has_no_line(held_out):
    assert len(summary_table(held_out, {})) == 0
    assert "no adapter" in summary_markdown(summary_table(held_out, {}))


def test_replicates_have_mean_and_spread():
    drawn_names = [drawn(name, seed) for name, seed in (("base", 1), ("a", 2), ("b", 3), ("c", 4))]
    held_out = HeldOut(drawn_names, SETTINGS)
    table = replicates_table(held_out, [["a", "b", "c", "not_evaluated"], ["base"]])
    found = table.to_pandas().set_index(["family", "metric"])
    values = [held_out.figure(name, "nll").value for name in "abc"]
    line = found.loc[("all", "nll")]
    assert line["mean"] == pytest.approx(np.mean(values))
    assert line["spread"] == pytest.approx(np.std(values, ddof=1))
    assert (line["least"], line["most"], line["seeds"]) == (min(values), max(values), 3)
    assert line["adapters"] == "a; b; c"
    assert found.loc[(FAMILIES[2], "nll"), ["mean", "spread"]].isna().all()
    assert "3 seeds: a; b; c" in replicates_markdown(table)
    assert "sweep over `seed`" in replicates_markdown(replicates_table(held_out, []))


def test_a_sweep_over_seeds_makes_replicates():
    config = load(
        {
            "sources": [{"name": "example", "format": "example"}],
            "adapters": {"pooled": {}, "drag": {"rank": 4}, "same": {"rank": 4}},
            "sweeps": {"seeds": {"from": "pooled", "grid": {"seed": [0, 1, 2]}}},
        }
    )
    # One name per seed; two names of one seed are one training.
    assert config.replicates == [["pooled", "seeds_seed_1", "seeds_seed_2"]]
