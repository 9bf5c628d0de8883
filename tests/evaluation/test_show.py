"""Protects what people read first: the glance on the terminal and the card say what is true."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from adaptermill.errors import UserError
from adaptermill.evaluation.markdown import number, table, with_interval
from adaptermill.evaluation.show import at_a_glance, verdict
from adaptermill.evaluation.tables import HeldOut, TableSettings
from scripts import card, tables
from tests.evaluation.building import FAMILIES, drawn, predictions, row, written

REPOSITORY = Path(__file__).resolve().parents[2]
OWN = [FAMILIES[0]]
SETTINGS = TableSettings(families=FAMILIES, bootstrap=300)


def held_out(*made):
    return HeldOut([drawn("base", 1), *made], SETTINGS)


def test_the_verdict_follows_the_interval():
    better = verdict(held_out(drawn("drag", 1, FAMILIES[0])), "drag", OWN)
    assert better.startswith(
        "On its own family (Drag & gesture), drag beats the base: NLL difference -1.000 ["
    )
    assert "over 15 episodes." in better
    assert "On the other families, drag and the base cannot be told apart" in better
    assert "few episodes" in better
    same = verdict(held_out(drawn("drag", 2)), "drag", OWN)
    assert "drag and the base cannot be told apart" in same
    swapped = HeldOut([drawn("base", 1, FAMILIES[0]), drawn("drag", 1)], SETTINGS)
    assert "drag is worse than the base" in verdict(swapped, "drag", OWN)


def test_nothing_is_claimed_of_one_episode_or_none():
    rows = [row("a", 0, [-1.0], family=FAMILIES[1])]
    made = HeldOut([predictions("base", rows), predictions("drag", rows)], SETTINGS)
    assert "nothing is held out" in verdict(made, "drag", OWN)
    assert "one episode is too little" in verdict(made, "drag", [FAMILIES[1]])
    assert verdict(made, "drag", []).startswith("Over all held-out rows, one episode")


def test_the_glance_lists_every_family():
    text = at_a_glance(held_out(drawn("drag", 1, FAMILIES[0])), {"drag": OWN})
    for family in (*FAMILIES, "all"):
        assert f"| {family} " in text
    assert "Drag & gesture (own)" in text
    assert "lower is better" in text
    assert "step success" not in text


def test_show_finds_the_families_that_an_adapter_was_trained_on(tmp_path, capsys):
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "fitsets" / "drag").mkdir(parents=True)
    composition = {"adapter": "drag", "by_family": {"ce": {FAMILIES[0]: 3}, "anchor": {"x": 1}}}
    (tmp_path / "fitsets" / "drag" / "composition.json").write_text(json.dumps(composition))
    made = [drawn("base", 1, generated=True), drawn("drag", 1, FAMILIES[0], generated=True)]
    tables.main(["--show", *written(tmp_path / "evaluation", *made)])
    shown = capsys.readouterr().out
    assert "drag beats the base" in shown
    assert "Held-out rows, base -> drag" in shown
    assert "step success |" in shown
    assert all(len(line) < 130 for line in shown.splitlines() if line.startswith("|"))


def test_show_of_the_base_alone(tmp_path, capsys):
    tables.main(["--show", *written(tmp_path, drawn("base", 1))])
    assert "greedy_match" in capsys.readouterr().out


def test_the_card_is_the_readme_and_the_figures(tmp_path):
    adapter = tmp_path / "adapters" / "drag"
    adapter.mkdir(parents=True)
    (adapter / "README.md").write_text("---\nbase_model: tiny\n---\n\n# drag\n")
    composition = tmp_path / "composition.json"
    composition.write_text(json.dumps({"by_family": {"ce": {FAMILIES[0]: 3}}}))
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"settings": {"families": FAMILIES, "bootstrap": 300}}))
    made = written(tmp_path, drawn("base", 1), drawn("drag", 1, FAMILIES[0]))
    given = ["--spec", str(spec), "--adapter", str(adapter), "--output", str(tmp_path / "drag.md")]
    card.main([*given, "--evaluations", *made, "--composition", str(composition)])
    text = (tmp_path / "drag.md").read_text()
    assert text.startswith("---\nbase_model: tiny\n---\n\n# drag\n\n## Held-out evaluation\n")
    assert "drag beats the base" in text
    assert "Drag & gesture (own)" in text
    assert "| Text entry " in text
    assert "Held-out rows `split`, base `base`, computed in float32 on a CPU." in text
    with pytest.raises(UserError, match="two evaluations"):
        card.main([*given, "--evaluations", made[0]])


def test_numbers_keep_the_digits_that_matter():
    shown = [number(v) for v in (None, 0, 0.00001, -0.00421, 0.5, 1.2345, 12.345, 123.45, 5678.9)]
    assert shown == ["–", "0", "1e-05", "-0.0042", "0.500", "1.234", "12.35", "123.5", "5679"]
    assert with_interval(1.0, 0.5, 2.0, True, sign=True) == "+1.000 [0.500, 2.000]*"
    assert with_interval(None, None, None, True) == "–"


def test_cells_cannot_break_a_table():
    made = table(["a|b", "c"], [["x\ny", None], ["z", 1]])
    assert made.splitlines()[0].startswith("| a\\|b |")
    assert len({len(line) for line in made.splitlines()}) == 1


@pytest.mark.slow
def test_tables_need_no_torch_and_evaluations_depend_on_no_other_stage():
    code = """
import sys
import scripts.tables, scripts.card
assert not {"torch", "transformers", "scipy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
    code = """
import sys
import scripts.evaluate
parts = {name.split(".")[1] for name in sys.modules if name.startswith("adaptermill.")}
assert parts == {"atomic", "errors", "evaluation", "hashing", "models", "provenance", "rows"}, parts
"""
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
