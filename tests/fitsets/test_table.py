"""The composition reads the same as JSON, CSV and Markdown, and its counts add up."""

import csv
import json

import pytest

from adaptermill.fitsets.table import COLUMNS, breakdowns, lines, write_composition

MADE = {
    "adapter": "drag",
    "input": 10,
    "kept": {"anchor": 2, "ce": 3},
    "dropped": {"duplicate": 1, "held_out": 4},
    "by_family": {"anchor": {"Navigation": 2}, "ce": {"Drag & gesture": 3}},
    "by_verdict": {"anchor": {"yes": 2}, "ce": {"yes": 2, "a | b": 1}},
    "distinct_targets": 2,
    "top_target_share": 2 / 3,
    "plan": {"rows": 15, "epochs": 3, "steps": 2},
    "hashes": {},
}


@pytest.fixture
def folder(tmp_path):
    write_composition(tmp_path, MADE)
    return tmp_path


def test_counts_add_up_to_the_input(folder):
    with open(folder / "composition.csv", newline="") as handle:
        read = list(csv.DictReader(handle))
    assert tuple(read[0]) == COLUMNS
    sums: dict[str, int] = {}
    for line in read:
        sums[line["part"]] = sums.get(line["part"], 0) + int(line["rows"])
    assert sums["kept"] + sums["dropped"] == sums["input"] == 10
    assert sums["family"] == sums["verdict"] == sums["kept"]
    assert read == [
        {k: "" if v is None else str(v) for k, v in each.items()} for each in lines(MADE)
    ]


def test_the_json_is_the_composition(folder):
    assert json.loads((folder / "composition.json").read_text()) == MADE


def test_the_markdown_shows_all_of_it(folder):
    text = (folder / "composition.md").read_text()
    assert "10 rows came in, 5 are kept and 5 left out." in text
    for part in ("| left out: held_out  |     4 |", "## By verdict", "Drag & gesture", "66.7%"):
        assert part in text
    assert "a \\| b" in text


def test_breakdowns_are_found_by_name():
    assert list(breakdowns(MADE)) == ["family", "verdict"]
