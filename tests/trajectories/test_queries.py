"""Windows, pass bands and the prescreen choose queries, and more data moves none of them."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptermill.errors import UserError
from adaptermill.trajectories.queries import outside_band, outside_windows, place, prescreen
from tests.trajectories.building import configured

QUERIES = st.sets(st.text(min_size=1, max_size=4), min_size=1, max_size=40)
CUTS = st.lists(st.floats(0.01, 0.99), min_size=2, max_size=2, unique=True).map(sorted)


def windows(train, heldout=None, evaluation=None, n=None, seed=0):
    return {"train": train, "heldout": heldout, "evaluation": evaluation, "n": n, "seed": seed}


@settings(max_examples=100, deadline=None)
@given(QUERIES, CUTS, st.integers(0, 3))
def test_every_query_is_on_one_side(queries, cuts, seed):
    low, high = cuts
    given = windows([0, low], [low, high], [high, 1], seed=seed)
    out = outside_windows(queries, given)
    for query_id in queries:
        value = place(query_id, seed)
        expected = None if value < low else "heldout" if value < high else "evaluation"
        assert out.get(query_id) == (expected and f"{expected}_window")


@settings(max_examples=100, deadline=None)
@given(QUERIES, QUERIES, st.integers(1, 10))
def test_more_queries_move_none_and_the_lowest_are_taken(queries, more, n):
    def taken(queries, n):
        out = outside_windows(queries, windows([0, 0.6], [0.6, 1], n=n))
        return {query_id for query_id in queries if query_id not in out}

    assert taken(queries, None) == taken(queries | more, None) & queries
    assert taken(queries, n) <= taken(queries, n + 1)
    limited = taken(queries, n)
    assert len(limited) == min(n, len(taken(queries, None)))
    left = taken(queries, None) - limited
    assert all(place(q, 0) <= place(other, 0) for q in limited for other in left)
    # New queries push out only by coming before.
    assert taken(queries | more, n) & queries <= limited


def test_queries_outside_every_window_are_left_out_and_ends_meet():
    values = {query_id: place(query_id, 0) for query_id in map(str, range(200))}
    out = outside_windows(values, windows([0.2, 0.5], [0.5, 0.7]))
    assert {q for q in values if out.get(q) == "outside_windows"} == {
        q for q, value in values.items() if value < 0.2 or value >= 0.7
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"train": [0, 0.6], "heldout": [0.5, 0.8]}, "train [0, 0.6] and heldout [0.5, 0.8]"),
        ({"train": [0, 0.6], "heldout": [0.7, 1], "evaluation": [0.1, 0.2]}, "overlap"),
        ({"train": [0.1, 0.2], "evaluation": [0, 1]}, "train [0.1, 0.2] and evaluation [0, 1]"),
        ({"train": [0.6, 0.6]}, "its first number is the smaller"),
        ({"train": [0, 1.2]}, "less than or equal to 1"),
        ({"heldout": [0, 1]}, "train: missing"),
    ],
)
def test_windows_that_overlap_are_refused(given, said):
    with pytest.raises(UserError) as refused:
        configured(windows=given)
    assert said in str(refused.value) and "adapters.mas.trajectories.windows" in str(refused.value)


def rollouts(**rewards: list[float]) -> pd.DataFrame:
    lines = [
        (query_id, f"{query_id}-{number}", number, number, reward)
        for query_id, given in rewards.items()
        for number, reward in enumerate(given)
    ]
    return pd.DataFrame(lines, columns=["query_id", "rollout_id", "rollout", "seed", "reward"])


def test_the_pass_band_keeps_what_lies_strictly_inside():
    table = rollouts(never=[0, 0], half=[0, 1], most=[1, 1, 0.5, 1], always=[1, 1])
    assert set(outside_band(table, [0, 1], 1.0)) == {"never", "always"}
    assert set(outside_band(table, [0.5, 1], 1.0)) == {"never", "half", "always"}
    assert set(outside_band(table, [0, 1], 0.5)) == {"never", "most", "always"}
    assert "pass rate 0.75" in outside_band(table, [0.75, 1], 1.0)["most"]


def test_the_prescreen_takes_the_first_that_are_not_easy_and_fills_up():
    hard, easy = [0.0, 0.0, 0.0], [1.0, 1.0]
    table = rollouts(**{f"h{n}": hard for n in range(6)}, **{f"e{n}": easy for n in range(6)})
    found = prescreen(table, {"pool": 12, "n": 4}, 1.0, seed=0)
    kept = {*table["query_id"]} - set(found.out)
    assert len(kept) == 4 and all(query_id.startswith("h") for query_id in kept)
    assert found.counts() == {"candidates": 12, "right_both_times": 6, "taken": 4, "filled": 0}
    filled = prescreen(table, {"pool": 12, "n": 9}, 1.0, seed=0)
    kept = {*table["query_id"]} - set(filled.out)
    assert sum(query_id.startswith("h") for query_id in kept) == 6 and len(kept) == 9
    assert (filled.taken, filled.filled) == (9, 3)
    small = prescreen(table, {"pool": 5, "n": 5}, 1.0, seed=0)
    assert list(small.out.values()).count("outside_pool") == 7


def test_the_prescreen_looks_at_two_rollouts_and_no_others():
    """With one wrong rollout of many, two that are drawn are mostly right both times."""
    table = rollouts(**{f"q{n:02}": [0.0, *[1.0] * 9] for n in range(50)})
    found = prescreen(table, {"pool": 50, "n": 50}, 1.0, seed=0)
    assert 30 <= found.right_both_times <= 48  # 80 % expected
    alone = prescreen(rollouts(a=[1.0], b=[1.0, 1.0]), {"pool": 2, "n": 1}, 1.0, seed=0)
    assert alone.right_both_times == 1 and alone.out == {"b": "right_both_times"}


@settings(max_examples=50, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_prescreen_goes_by_what_rollouts_are_and_not_by_their_order(shuffler, seed):
    table = rollouts(**{f"q{n}": [float(n % 3 == r % 2) for r in range(4)] for n in range(8)})
    lines = table.to_dict("records")
    shuffler.shuffle(lines)
    first = prescreen(table, {"pool": 6, "n": 3}, 1.0, seed)
    assert prescreen(pd.DataFrame(lines), {"pool": 6, "n": 3}, 1.0, seed) == first
