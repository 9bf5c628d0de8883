"""Advantages, caps and pairs are those of a plain reference, whatever the messages are."""

import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptermill.trajectories.advantages import GROUP, advantages
from adaptermill.trajectories.caps import over_cap
from adaptermill.trajectories.pairs import make_pairs, normalised
from tests.trajectories import reference
from tests.trajectories.building import as_table, some_messages

KINDS = st.sampled_from(["chosen", "same_only"])


@settings(max_examples=200, deadline=None)
@given(some_messages(unrewarded=True))
def test_advantages(messages):
    found = advantages(as_table(messages))
    for message, value in zip(messages, found, strict=True):
        expected = reference.advantage(message, messages)
        if expected is None:
            assert math.isnan(value)
        else:
            assert value == pytest.approx(expected, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(some_messages(unrewarded=True))
def test_advantages_of_a_group_add_up_to_nothing(messages):
    table = as_table(messages)
    sums = advantages(table).groupby([table[name] for name in GROUP]).sum()
    assert (sums.abs() < 1e-12).all()


def test_another_query_of_the_same_id_is_another_group():
    table = as_table(
        [
            dict.fromkeys(("prompt", "content", "target"), "t")
            | {"row_id": str(n), "query_id": "1", "seat": 0, "reward": float(n)}
            for n in range(2)
        ]
    )
    assert list(advantages(table)) == [-0.5, 0.5]
    assert list(advantages(table.assign(query=["one", "other"]))) == [0, 0]
    assert list(advantages(table.assign(system=["sequential", "hierarchical"]))) == [0, 0]


@settings(max_examples=200, deadline=None)
@given(some_messages(unrewarded=True), st.integers(1, 3))
def test_caps(messages, cap):
    for message in messages:
        message["advantage"] = reference.advantage(message, messages)
    table = as_table(messages)
    best = over_cap(table, {"key": "target", "cap": cap}, ["seat"])
    assert list(table.loc[best.isna(), "row_id"]) == reference.capped(messages, cap)
    by_id = {message["row_id"]: message for message in messages}
    for row_id, stands_for in zip(table["row_id"], best, strict=True):
        if stands_for is not None:
            one, other = by_id[row_id], by_id[stands_for]
            assert reference.visible(one["target"]) == reference.visible(other["target"])
            assert best[table["row_id"] == stands_for].isna().all()


def test_wider_keys_share_less():
    texts = [("p", "yes"), ("p", "yes"), ("q", "yes"), ("q", "<think>a</think> yes ")]
    table = pd.DataFrame(
        {
            "row_id": list("abcd"),
            "target": [target for _, target in texts],
            "text_hash": [prompt for prompt, _ in texts],
            "prompt_hash": ["p1", "p2", "q1", "q1"],
            "advantage": [0.0, 0.0, 0.0, 1.0],
            "seat": 0,
        }
    )
    out = {
        key: list(over_cap(table, {"key": key, "cap": 1}, ["seat"]))
        for key in ("target", "prompt+target", "prompt+target+images")
    }
    assert out["target"] == ["d", "d", "d", None]
    assert out["prompt+target"] == [None, "a", "d", None]
    assert out["prompt+target+images"] == [None, None, "d", None]


@settings(max_examples=300, deadline=None)
@given(some_messages(), KINDS, st.integers(1, 5), st.integers(0, 3))
def test_pairs(messages, pair_prompt, max_pairs, seed):
    found = make_pairs(as_table(messages), pair_prompt, max_pairs, seed)
    pairs, counts = reference.pairs(messages, pair_prompt, max_pairs, seed)
    made = list(zip(found.table["chosen"], found.table["rejected"], strict=True))
    assert sorted(made) == pairs
    assert {name: getattr(found, name) for name in counts} == counts
    assert counts["candidates"] == len(made) + counts["equal_texts"] + counts["not_drawn"]
    assert found.table["pair_id"].is_unique
    paired = {row_id for pair in made for row_id in pair}
    assert set(found.why) == {message["row_id"] for message in messages} - paired


@settings(max_examples=50, deadline=None)
@given(some_messages(), st.integers(0, 3), st.randoms(use_true_random=False))
def test_more_pairs_hold_fewer_and_the_order_of_the_data_does_not_matter(messages, seed, shuffler):
    def made(messages, most):
        table = make_pairs(as_table(messages), "chosen", most, seed).table
        return set(zip(table["chosen"], table["rejected"], strict=True))

    assert made(messages, 1) <= made(messages, 3)
    shuffled = list(messages)
    shuffler.shuffle(shuffled)
    assert made(shuffled, 2) == made(messages, 2)


def test_texts_that_only_look_different_are_equal():
    assert normalised(" e\u0301  a\n") == normalised("\u00e9\u00a0a")
    assert normalised("a") != normalised("A")
