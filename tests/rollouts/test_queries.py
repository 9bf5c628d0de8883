"""Windows part queries as they part recorded rollouts."""

import pytest

from adaptermill.errors import UserError
from adaptermill.rollouts.queries import Query, inside_window
from adaptermill.trajectories.queries import inside, outside_windows, place
from adaptermill.trajectories.settings import Windows

QUERIES = [Query(f"q{n}", "?", "1", "math") for n in range(200)]
GIVEN = {"train": [0, 0.5], "heldout": [0.5, 0.7], "evaluation": [0.7, 1], "seed": 3}


def test_the_windows_are_disjoint_and_those_of_recorded_rollouts():
    windows = Windows.model_validate(GIVEN).model_dump()
    parts = {name: inside_window(QUERIES, windows, name) for name in GIVEN if name != "seed"}
    taken = [query.query_id for kept, _ in parts.values() for query in kept]
    assert sorted(taken) == sorted(query.query_id for query in QUERIES)
    assert parts["train"][1] == outside_windows([q.query_id for q in QUERIES], windows)
    for name, (kept, out) in parts.items():
        assert kept and len(kept) + len(out) == len(QUERIES)
        assert all(inside(place(query.query_id, 3), GIVEN[name]) for query in kept)


def test_more_queries_move_none_that_was_taken_but_for_lower_hashes():
    windows = Windows.model_validate({**GIVEN, "n": 10}).model_dump()
    few = {q.query_id for q in inside_window(QUERIES[:100], windows, "evaluation")[0]}
    more = inside_window(QUERIES, windows, "evaluation")[0]
    highest = max(place(query.query_id, 3) for query in more)
    assert len(more) == len(few) == 10
    assert {n for n in few if place(n, 3) <= highest} <= {query.query_id for query in more}


def test_a_window_without_an_interval_is_refused():
    windows = Windows.model_validate({"train": [0, 0.5]}).model_dump()
    with pytest.raises(UserError, match="'heldout' has no interval"):
        inside_window(QUERIES, windows, "heldout")
