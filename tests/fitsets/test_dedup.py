"""What repeats another example is dropped and names it; the best ones stay, whatever the order."""

import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as trial
from hypothesis import strategies as st

from adaptermill.fitsets.dedup import exact_duplicates, near_duplicates
from adaptermill.fitsets.select import select
from adaptermill.minhash import Signer
from adaptermill.signatures import Signed
from tests.fitsets.building import DRAG, NAVIGATION, pool, row, rows, settings

NEAR = {"threshold": 0.7, "ngram": 3, "permutations": 128}
SIGN = Signer(3, 128)
PAGE = " ".join(f"word{k}" for k in range(80))


def kept(*given: dict, **columns: list) -> pd.DataFrame:
    return rows(*given).assign(kind="ce", **columns)


def exact(frame: pd.DataFrame, cap: int = 1, key: str = "target") -> list[str | None]:
    return exact_duplicates(frame, {"key": key, "cap": cap}).tolist()


def signed(texts: list[tuple[str, str]], names: list[str]) -> Signed:
    prompts, answers = (
        np.stack([SIGN([text]) for text in side]) for side in zip(*texts, strict=True)
    )
    return Signed(names, prompts, answers)


def near(frame: pd.DataFrame, texts: list[tuple[str, str]], key="prompt+target", cap=1) -> list:
    dedup = {"key": key, "cap": cap, "near": NEAR}
    found = near_duplicates(frame, dedup, signed(texts, list(frame["row_id"])))
    assert list(found.index) == list(frame.index)
    return found.tolist()


def same(count: int) -> list[dict]:
    return [row(f"a{k}", target_hash="y") for k in range(count)]


def test_the_highest_advantage_stays_and_ties_keep_the_first():
    frame = kept(*same(4), advantage=[0.1, 0.9, 0.9, -1.0])
    assert exact(frame) == ["main/a1/0", None, "main/a1/0", "main/a1/0"]
    assert exact(frame, cap=3) == [None, None, None, "main/a1/0"]


@pytest.mark.parametrize("columns", [{}, {"advantage": [None, None, None]}])
def test_without_advantages_the_first_stay(columns):
    assert exact(kept(*same(3), **columns), cap=2) == [None, None, "main/a0/0"]


def test_an_example_without_an_advantage_comes_after_those_with_one():
    assert exact(kept(*same(3), advantage=[None, -5.0, 0.5])) == ["main/a2/0", "main/a2/0", None]


def test_kinds_are_counted_apart():
    frame = kept(*same(4)).assign(kind=["ce", "anchor", "ce", "anchor"])
    assert exact(frame) == [None, None, "main/a0/0", "main/a1/0"]


def test_near_texts_repeat_the_one_that_they_are_most_like():
    frame = kept(*(row(name) for name in "abcd"))
    texts = [
        (PAGE, "press"),
        ("another page altogether", "no"),
        (PAGE + " end", "press"),
        (PAGE + " end of it", "press"),
    ]
    assert near(frame, texts) == [None, None, "main/a/0", "main/a/0"]
    assert near(frame, texts, cap=2) == [None, None, None, "main/c/0"]
    # By the answer alone all with the same one are near.
    assert near(frame, texts, key="target") == [None, None, "main/a/0", "main/a/0"]
    assert near(frame.assign(advantage=[0, 0, 1, 0]), texts)[0] == "main/c/0"


def test_near_rows_with_other_screenshots_stay_where_the_key_has_images():
    frame = kept(*(row(name, image=image) for name, image in zip("abc", "iji", strict=True)))
    texts = [(PAGE, "press")] * 3
    assert near(frame, texts, key="prompt+target+images") == [None, None, "main/a/0"]
    assert near(frame, texts) == [None, "main/a/0", "main/a/0"]


def test_near_duplicates_are_left_out_of_the_fit_set_with_their_original():
    given = [row("a"), row("b"), *pool(2), row("c", family=NAVIGATION)]
    texts = {"main/a/0": PAGE, "main/b/0": PAGE + " x", "main/pool0/0": PAGE, "main/c/0": "other"}

    def sign(row_ids: list[str]) -> Signed:
        return signed([(texts.get(name, name), "press") for name in row_ids], row_ids)

    found = select(rows(*given), settings(dedup={"key": "prompt+target", "near": NEAR}), sign=sign)
    dropped = found.dropped_table().to_dict("records")
    assert dropped == [
        {"row_id": "main/b/0", "stage": "dedup", "reason": "near_duplicate", "detail": "main/a/0"}
    ]
    assert set(found.of_kind("anchor")["row_id"]) == {"main/pool0/0", "main/pool1/0", "main/c/0"}
    assert settings()["recipe"]["dedup"]["near"] is None and DRAG in settings()["own_families"]


some = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from([None, 0.0, 0.5, 1.0])),
    min_size=1,
    max_size=12,
)


@trial(deadline=None)
@given(some, st.integers(1, 3))
def test_a_key_keeps_its_cap_and_duplicates_name_one_that_stays(examples, cap):
    given = [row(f"a{k}", target_hash=answer) for k, (answer, _) in enumerate(examples)]
    frame = kept(*given, advantage=[advantage for _, advantage in examples])
    repeats = exact(frame, cap)
    stay = {name for name, of in zip(frame["row_id"], repeats, strict=True) if of is None}
    answer_of = dict(zip(frame["row_id"], frame["target_hash"], strict=True))
    worth = dict(zip(frame["row_id"], frame["advantage"].fillna(-9), strict=True))
    for answer in set(answer_of.values()):
        all_of_it = [name for name in answer_of if answer_of[name] == answer]
        kept_of_it = [name for name in all_of_it if name in stay]
        assert len(kept_of_it) == min(cap, len(all_of_it))
        worst = min(worth[name] for name in kept_of_it)
        assert all(worth[name] <= worst for name in all_of_it if name not in stay)
    for name, of in zip(frame["row_id"], repeats, strict=True):
        assert of is None or (of in stay and answer_of[of] == answer_of[name])


versions = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=10)


@trial(deadline=None, max_examples=50)
@given(versions, st.randoms(use_true_random=False))
def test_what_stays_is_near_nothing_that_stays_and_no_line_order_matters(given_texts, randomness):
    said = [
        (" ".join(f"t{topic}w{k}" for k in range(60)) + f" v{v}", "go") for topic, v in given_texts
    ]
    frame = kept(*(row(f"a{k:02}") for k in range(len(said))))
    repeats = near(frame, said)
    stay = [topic for (topic, _), of in zip(given_texts, repeats, strict=True) if of is None]
    assert len(stay) == len(set(stay)) == len({topic for topic, _ in given_texts})
    # The frame's labels are not its order.
    labels = list(range(len(said)))
    random.Random(randomness.random()).shuffle(labels)
    assert near(frame.set_axis(labels), said) == repeats
