"""Held-out rows that training has seen are counted, by what is equal or near, and shown."""

import numpy as np
import pytest

from adaptermill.leaks import leak_report, near_report, readable
from adaptermill.minhash import Signer
from adaptermill.signatures import Signed
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


SIGN = Signer(3, 128)
PAGE = " ".join(f"word{k}" for k in range(100))


def near(*given: dict, **texts: tuple[str, str]) -> dict:
    """The near report; `texts` are (prompt, answer) by task, and screenshots are the images."""
    index = rows(*given)
    said = [texts[task] for task in index["task_id"]]
    prompts = np.stack([SIGN([prompt]) for prompt, _ in said])
    answers = np.stack([SIGN([answer]) for _, answer in said])
    return near_report(index, Signed(list(index["row_id"]), prompts, answers), 0.8)


def held(name: str, **changes) -> dict:
    return row(name, side="validation", **changes)


def test_near_rows_are_counted_by_what_is_near_and_shown_with_the_nearest():
    found = near(
        *(row("a", image="i"), row("b", image="j"), row("c"), row("d")),
        *(held("h", image="j"), held("k")),
        a=(PAGE, "press the left button now"),
        b=(PAGE + " more", "press the right button now"),
        c=("something else", "no"),
        d=(PAGE.replace("word50", "changed"), "a"),
        h=(PAGE, "press the left button now"),
        k=("a page of its own", "done"),
    )
    assert counts({"duplicates": found}) == dict.fromkeys(found, 1)
    [text] = found["text"]["examples"]
    assert text == {
        "heldout": "main/h/0",
        "train": "main/a/0",
        "family": "Drag & gesture",
        "similarity": 1.0,
    }
    [shown] = found["text_and_screenshot"]["examples"]
    assert shown["train"] == "main/b/0" and 0.8 <= shown["similarity"] < 1


def test_exact_twins_are_not_counted_as_near_too():
    same = {"text_hash": "t", "target_hash": "y", "image": "i"}
    said = (PAGE, "press")
    found = near(row("a", **same), row("b"), held("h", **same), a=said, b=said, h=said)
    assert set(counts({"duplicates": found}).values()) == {0}
    other = near(
        row("a", **same), row("b"), held("h", **{**same, "image": "j"}), a=said, b=said, h=said
    )
    assert counts({"duplicates": other}) == {
        "prompt_text": 0,
        "prompt_text_and_screenshot": 0,
        "text": 0,
        "text_and_screenshot": 0,
    }


def test_rows_that_are_not_trained_on_are_near_nothing():
    found = near(
        *(row("a", untrainable="injected"), row("b", side="mixed"), held("h")),
        **dict.fromkeys("abh", (PAGE, "press")),
    )
    assert set(counts({"duplicates": found}).values()) == {0}


def test_every_near_row_counts_though_many_say_the_same():
    names = [f"h{k:02}" for k in range(25)]
    found = near(row("a"), *map(held, names), **dict.fromkeys(["a", *names], (PAGE, "press")))
    assert counts({"duplicates": found})["text"] == 25
    assert [e["heldout"] for e in found["text"]["examples"]] == [f"main/{n}/0" for n in names[:10]]
    said = {"threshold": 0.8, "ngram": 3, "permutations": 128, "compared": found}
    text = readable({**report(), "near_duplicates": said})
    assert (
        "25 others near by text and screenshot" in text and "80% of their runs of 3 words" in text
    )
