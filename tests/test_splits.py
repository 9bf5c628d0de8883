"""Membership is a function of source names: golden values, and what must hold for any data."""

import json
import random
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as trial
from hypothesis import strategies as st

from adaptermill.rows.episodes import sources_of, variant_of
from adaptermill.splits import (
    fraction_key,
    in_fraction,
    rename,
    side_of_episode,
    side_of_group,
    split_episodes,
    u,
)

GOLDEN = Path(__file__).resolve().parents[2] / "shared" / "golden" / "webmix.json"
NAMES = [f"task-{k}" for k in range(40)]


@pytest.mark.skipif(not GOLDEN.is_file(), reason="no golden values here")
def test_golden_membership_of_190_task_ids():
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))["split"]
    assert len(cases) == 190
    for case in cases:
        parts = case.get("parts")
        sources = sources_of(case["task_id"], parts)
        assert variant_of(case["task_id"], bool(parts)) == case["variant"]
        assert sources == (parts or [case["source"]])
        side = side_of_episode(sources, 0.05, mixed_chains="any")
        assert (side == "validation") == case["validation"], case
        for fraction, inside in case["in_fraction"].items():
            assert in_fraction(fraction_key(sources), float(fraction)) == inside, case


def test_hash_of_known_texts():
    assert u("") == 0xD41D8CD9 / 0xFFFFFFFF
    assert u("größe") == 0xFDBB3A56 / 0xFFFFFFFF


def settings(**changes) -> dict:
    return {
        "validation_fraction": 0.3,
        "test_fraction": 0.0,
        "group_by": "source",
        "mixed_chains": "exclude",
        **changes,
    }


def episodes(*given: dict) -> pd.DataFrame:
    """Episodes as {"sources": …, "macro": …}, named by their place."""
    filled = [
        {"task_id": f"e{k}", "source": "main", "macro": [], "site": [], **episode}
        for k, episode in enumerate(given)
    ]
    return pd.DataFrame(filled, columns=["task_id", "source", "sources", "macro", "site"])


def sides(table: pd.DataFrame, **changes) -> dict[str, str]:
    found, _ = split_episodes(table, settings(**changes))
    return dict(zip(found["task_id"], found["side"], strict=True))


def named(side: str, count: int = 1, **changes) -> list[str]:
    """Source names that lie on that side."""
    values = settings(**changes)
    fractions = values["validation_fraction"], values["test_fraction"]
    return [name for name in NAMES if side_of_group(name, *fractions) == side][:count]


some_episodes = st.lists(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True), min_size=1, max_size=15
).map(lambda found: [{"sources": sources} for sources in found])
policies = st.fixed_dictionaries(
    {
        "mixed_chains": st.sampled_from(["exclude", "any"]),
        "test_fraction": st.sampled_from([0.0, 0.2]),
    }
)


@trial(deadline=None)
@given(some_episodes, some_episodes, policies)
def test_adding_episodes_never_moves_an_old_one(old, new, policy):
    before = sides(episodes(*old), **policy)
    after = sides(episodes(*old, *new), **policy)
    assert {name: after[name] for name in before} == before


@trial(deadline=None)
@given(some_episodes, policies, st.randoms())
def test_order_of_the_episodes_does_not_matter(given_episodes, policy, randomness: random.Random):
    table = episodes(*given_episodes)
    shuffled = table.sample(frac=1, random_state=randomness.randint(0, 1000))
    assert sides(shuffled, **policy) == sides(table, **policy)


@trial(deadline=None)
@given(some_episodes, st.sampled_from([0.0, 0.2]))
def test_no_source_of_a_held_out_episode_is_trained_on(given_episodes, test_fraction):
    table = episodes(*given_episodes)
    found = sides(table, test_fraction=test_fraction)
    held, trained = set(), set()
    for task_id, sources in zip(table["task_id"], table["sources"], strict=True):
        into = {"train": trained, "validation": held, "test": held}.get(found[task_id], set())
        into.update(sources)
    assert not held & trained


@trial(deadline=None)
@given(
    st.lists(st.text(), min_size=1, max_size=4),
    st.floats(0.01, 1),
    st.floats(0.01, 1),
)
def test_smaller_fractions_lie_inside_larger_ones(sources, one, other):
    key = fraction_key(sources)
    small, large = sorted((one, other))
    assert not in_fraction(key, small) or in_fraction(key, large)
    assert in_fraction(key, 1)
    assert in_fraction(key, one) == all(in_fraction(fraction_key([s]), one) for s in sources)


def test_test_side_is_asked_first_and_takes_nothing_from_the_training_side_otherwise():
    table = episodes(*({"sources": [name]} for name in NAMES))
    without, with_test = sides(table), sides(table, test_fraction=0.3)
    moved = {name for name in without if without[name] != with_test[name]}
    assert moved and {with_test[name] for name in moved} == {"test"}
    assert {without[name] for name in moved} == {"train", "validation"}


def test_chains_whose_parts_disagree():
    held, trained = named("validation") + named("train")
    tested = named("test", test_fraction=0.3)
    table = episodes(
        {"sources": [held, trained]},
        {"sources": named("validation", 2)},
        {"sources": named("train", 2)},
    )
    assert list(sides(table).values()) == ["mixed", "validation", "train"]
    assert list(sides(table, mixed_chains="any").values()) == ["validation", "validation", "train"]
    chain = episodes({"sources": [*tested, *named("train", test_fraction=0.3)]})
    assert list(sides(chain, test_fraction=0.3).values()) == ["mixed"]
    assert list(sides(chain, test_fraction=0.3, mixed_chains="any").values()) == ["test"]


def test_nothing_is_held_out_at_fraction_zero():
    assert set(sides(episodes({"sources": NAMES}), validation_fraction=0.0).values()) == {"train"}


def test_groups_are_the_columns_values_and_else_the_sources():
    table = episodes(
        {"sources": ["x"], "macro": ["slider"]},
        {"sources": ["x"], "macro": []},  # a recovery whose rows say nothing
        {"sources": ["y"], "macro": []},
        {"sources": ["x", "y"], "macro": []},
        {"sources": ["x", "z"], "macro": ["box", "slider"]},
    )
    found, alone = split_episodes(table, settings(group_by="macro"))
    assert list(found["group"]) == ["slider", "slider", "y", "slider+y", "box+slider"]
    assert alone == 1
    assert list(found["fraction_key"]) == [fraction_key(s) for s in table["sources"]]
    expected = [side_of_episode(group.split("+"), 0.3) for group in found["group"]]
    assert list(found["side"]) == expected
    by_source, _ = split_episodes(table, settings())
    assert list(by_source["group"]) == ["x", "x", "y", "x+y", "x+z"]


@trial(deadline=None)
@given(some_episodes, some_episodes, st.sampled_from(["exclude", "any"]))
def test_by_group_old_episodes_stay_and_no_held_out_group_is_trained_on(old, new, mixed_chains):
    # Rows carry the macro of the source they show, in chains too.
    for episode in (*old, *new):
        episode["macro"] = sorted({f"macro-{u(source) * 8:.0f}" for source in episode["sources"]})
    policy = {"group_by": "macro", "mixed_chains": mixed_chains}
    before, table = sides(episodes(*old), **policy), episodes(*old, *new)
    after = sides(table, **policy)
    assert {name: after[name] for name in before} == before
    if mixed_chains == "exclude":
        on_side = {side: set() for side in ("train", "validation", "mixed")}
        for task_id, macros in zip(table["task_id"], table["macro"], strict=True):
            on_side[after[task_id]].update(macros)
        assert not on_side["train"] & on_side["validation"]


@trial(deadline=None)
@given(some_episodes, st.data())
def test_whatever_a_column_says_no_source_of_a_held_out_episode_is_trained_on(some, data):
    macros = st.lists(st.sampled_from("pqrst"), max_size=2, unique=True).map(sorted)
    table = episodes(*({**episode, "macro": data.draw(macros)} for episode in some))
    found = sides(table, group_by="macro")
    on_side = {side: set() for side in ("train", "validation", "mixed")}
    for task_id, sources in zip(table["task_id"], table["sources"], strict=True):
        on_side[found[task_id]].update(sources)
    assert not on_side["train"] & on_side["validation"]


def test_families_are_renamed_all_at_once():
    families = pd.Series(["Typing", "Clicking", "Other"])
    swapped = rename(families, {"Typing": ["Clicking"], "Clicking": ["Typing"]})
    assert list(swapped) == ["Clicking", "Typing", "Other"]
