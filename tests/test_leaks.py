"""Held-out rows that training has seen are counted, by what is equal, and shown."""

import pytest

from adaptermill.leaks import leak_report, readable
from tests.fitsets.building import row, rows


def report(*heldout: dict, side: str = "validation") -> dict:
    train = [row("a", text_hash="t", target_hash="y", image="i"), row("b"), row("c")]
    return leak_report(rows(*train, *({**r, "side": side} for r in heldout)))


def counts(found: dict) -> dict[str, int]:
    return {name: twins["heldout_rows"] for name, twins in found["duplicates"].items()}


@pytest.mark.parametrize(
    ("said", "equal"),
    [
        (
            ("t", "y", "i"),
            {"prompt_text", "prompt_text_and_screenshot", "text", "text_and_screenshot"},
        ),
        (("t", "y", "j"), {"prompt_text", "text"}),
        (("t", "z", "i"), {"prompt_text", "prompt_text_and_screenshot"}),
        (("t", "z", "j"), {"prompt_text"}),
        (("s", "y", "i"), set()),
    ],
)
@pytest.mark.parametrize("side", ["validation", "test"])
def test_what_is_equal(said, equal, side):
    names = dict(zip(("text_hash", "target_hash", "image"), said, strict=True))
    found = report(row("h", **names), row("k"), side=side)
    assert (found["training_rows"], found["heldout_rows"]) == (3, 2)
    assert {name for name, count in counts(found).items() if count} == equal
    for name in equal:
        [example] = found["duplicates"][name]["examples"]
        assert example["heldout"] == "main/h/0" and example["train"] == "main/a/0"


@pytest.mark.parametrize("changes", [{"trainable": False}, {"side": "mixed"}, {"side": "train"}])
def test_rows_that_are_not_evaluated_are_no_leaks(changes):
    twin = row("h", text_hash="t", target_hash="y", image="i")
    found = leak_report(
        rows(row("a", text_hash="t", target_hash="y", image="i"), {**twin, **changes}, row("b"))
    )
    assert set(counts(found).values()) == {0}


def test_training_rows_that_are_not_trained_on_leak_nothing():
    said = {"text_hash": "t", "target_hash": "y"}
    found = leak_report(
        rows(row("a", untrainable="injected", **said), row("h", side="validation", **said))
    )
    assert set(counts(found).values()) == {0}


def test_every_held_out_row_counts_once_and_only_some_are_shown():
    said = {"text_hash": "t", "target_hash": "y", "image": "i"}
    found = report(*(row(f"h{k:02}", **said) for k in range(25)), row("h", **said))
    assert counts(found)["text"] == 26
    examples = found["duplicates"]["text"]["examples"]
    assert len(examples) == 10
    assert examples == sorted(examples, key=lambda example: example["heldout"])
    assert "26 with an exact twin by text and screenshot" in readable(found)
