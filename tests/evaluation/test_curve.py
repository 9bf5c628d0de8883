"""Protects the held-out curve: the base, every epoch and the finished adapter, on the same rows."""

import pytest

from adaptermill.evaluation.curve import epochs_markdown, epochs_table
from adaptermill.evaluation.tables import HeldOut, TableSettings
from tests.evaluation.building import FAMILIES, predictions, row


def made(name, **epochs):
    rows = []
    for number in range(8):
        family = FAMILIES[number % 2]
        line = row(f"task-{number}", 0, [-1.0 - number] * 2, family=family)
        rows.append({**line, **{key: [line["nll"] + x for x in at] for key, at in epochs.items()}})
    return predictions(name, rows)


def test_a_curve_goes_from_the_base_to_the_finished_adapter():
    files = [made("base"), made("drag", epochs_nll=[0.5, 0.25]), made("short")]
    held_out = HeldOut(files, TableSettings(families=FAMILIES, bootstrap=200, weak_below=5))
    table = epochs_table(held_out, files, {"drag": [FAMILIES[0]], "short": [FAMILIES[1]]})
    found = table.to_pandas()
    assert set(found["adapter"]) == {"drag"}
    own = found[found["part"] == "own"].set_index("epoch")["nll"]
    finished = held_out.figure("drag", "nll", [FAMILIES[0]]).value
    assert list(own) == pytest.approx([finished, finished + 0.5, finished + 0.25, finished])
    assert found[found["part"] == FAMILIES[2]]["nll"].isna().all()
    others = found[(found["part"] == "others") & (found["epoch"] == 1)]
    assert others["rows"].item() == 4 and others["weak"].item()
    assert "| drag" in epochs_markdown(table)


def test_without_earlier_epochs_there_is_no_curve():
    files = [made("base"), made("drag")]
    held_out = HeldOut(files, TableSettings(bootstrap=200))
    table = epochs_table(held_out, files, {"drag": [FAMILIES[0]]})
    assert len(table) == 0 and "No adapter" in epochs_markdown(table)
