"""The plan is drawn from its inputs alone, holds what it must, and moves little when rows come."""

import itertools
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as trial
from hypothesis import strategies as st

from adaptermill.fitsets.plan import PLAN_SCHEMA, Line, half_up, make_plan, to_table
from tests.hash_seeds import said_with_other_seeds

REPOSITORY = Path(__file__).resolve().parents[2]


def contents(prefix: str, count: int) -> dict[str, str]:
    return {f"{prefix}{k}": f"content of {prefix}{k}" for k in range(count)}


def plan(ce: int = 10, pool: int = 30, **changes) -> list[Line]:
    values = {"seed": 0, "epochs": 1, "anchor_ratio": 0.5, "batch_rows": 8, **changes}
    return make_plan(contents("c", ce), contents("a", pool), **values)


def drawn(lines: list[Line], kind: str, epoch: int = 0) -> list[str]:
    return [line.row_id for line in lines if line.kind == kind and line.epoch == epoch]


def test_every_epoch_holds_all_ce_rows_once_and_fresh_anchors_without_repeats():
    lines = plan(epochs=3)
    assert [line.position for line in lines] == list(range(3 * 15))
    for epoch in range(3):
        assert sorted(drawn(lines, "ce", epoch)) == sorted(contents("c", 10))
        anchors = drawn(lines, "anchor", epoch)
        assert len(set(anchors)) == len(anchors) == 5
    assert set(drawn(lines, "anchor", 0)) != set(drawn(lines, "anchor", 1))
    assert drawn(lines, "ce", 0) != drawn(lines, "ce", 1)


def test_anchors_lie_among_the_ce_rows():
    kinds = [line.kind for line in plan(ce=100, pool=100)]
    changes = sum(a != b for a, b in itertools.pairwise(kinds))
    assert changes > 40


@pytest.mark.parametrize(("ce", "ratio", "anchors"), [(3, 0.5, 2), (5, 0.5, 3), (1, 0.49, 0)])
def test_number_of_anchors_is_rounded_half_up(ce, ratio, anchors):
    assert len(drawn(plan(ce=ce, anchor_ratio=ratio), "anchor")) == anchors
    assert [half_up(value) for value in (0.5, 1.5, 2.5, 2.4999)] == [1, 2, 3, 2]


def test_a_pool_that_is_too_small_is_gone_through_again():
    counts = Counter(drawn(plan(ce=10, pool=4, anchor_ratio=1.0), "anchor"))
    assert sum(counts.values()) == 10
    assert set(counts) == set(contents("a", 4))
    assert set(counts.values()) == {2, 3}


def test_without_a_pool_or_a_ratio_there_are_no_anchors():
    assert {line.kind for line in plan(pool=0)} == {"ce"}
    assert {line.kind for line in plan(anchor_ratio=0)} == {"ce"}


@pytest.mark.parametrize(("epochs", "length"), [(0.5, 8), (1.5, 23), (2, 30), (2.1, 32), (0.01, 0)])
def test_fractional_epochs_cut_the_plan(epochs, length):
    lines = plan(epochs=epochs)
    assert len(lines) == length
    assert lines == plan(epochs=3)[:length]


def test_max_steps_cuts_after_whole_batches():
    assert plan(epochs=3, max_steps=2) == plan(epochs=3)[:16]
    assert plan(epochs=1, max_steps=100) == plan(epochs=1)


def test_seed_changes_order_and_anchors_but_no_ce_row():
    first, second = plan(seed=0), plan(seed=1)
    assert drawn(first, "ce") != drawn(second, "ce")
    assert sorted(drawn(first, "ce")) == sorted(drawn(second, "ce"))
    assert set(drawn(first, "anchor")) != set(drawn(second, "anchor"))


@trial(deadline=None)
@given(st.permutations(list(contents("c", 6))), st.permutations(list(contents("a", 6))))
def test_order_of_the_rows_given_does_not_matter(ce, pool):
    shuffled = make_plan(
        {name: contents("c", 6)[name] for name in ce},
        {name: contents("a", 6)[name] for name in pool},
        seed=0,
        epochs=2,
        anchor_ratio=0.5,
        batch_rows=8,
    )
    assert shuffled == plan(ce=6, pool=6, epochs=2)


def test_what_a_row_is_called_does_not_matter():
    settings = {"seed": 0, "epochs": 2, "anchor_ratio": 0.5, "batch_rows": 8}
    ce, pool = contents("c", 10), contents("a", 10)
    renamed = make_plan({f"x{name}": said for name, said in ce.items()}, pool, **settings)
    as_before = [line.row_id.removeprefix("x") for line in renamed]
    assert as_before == [line.row_id for line in make_plan(ce, pool, **settings)]


@trial(deadline=None)
@given(st.integers(1, 20), st.integers(0, 20), st.integers(0, 5))
def test_a_new_row_moves_no_other_row(ce, pool, epoch):
    settings = {"epochs": epoch + 1, "anchor_ratio": 0.5}
    before = drawn(plan(ce=ce, pool=pool, **settings), "ce", epoch)
    after = drawn(plan(ce=ce + 1, pool=pool, **settings), "ce", epoch)
    assert [row_id for row_id in after if row_id != f"c{ce}"] == before


def test_copies_of_one_content_are_all_in_the_plan():
    lines = make_plan(
        {"one": "same", "two": "same"}, {}, seed=0, epochs=1, anchor_ratio=0, batch_rows=8
    )
    assert sorted(line.row_id for line in lines) == ["one", "two"]


def test_plan_is_the_same_in_a_process_with_another_hash_seed():
    code = (
        "from tests.fitsets.test_plan import plan\n"
        "print([(line.epoch, line.position, line.row_id, line.kind) for line in plan(epochs=2)])"
    )
    said = said_with_other_seeds(code)
    here = [(line.epoch, line.position, line.row_id, line.kind) for line in plan(epochs=2)]
    assert said == {f"{here}\n"}


def test_first_lines_are_what_they_always_were():
    # An order that changes makes every adapter stale: change this only on purpose.
    assert [line.row_id for line in plan()][:6] == ["c6", "a1", "c2", "c0", "a6", "c5"]


def test_table_has_the_columns_that_others_rely_on():
    table = to_table(plan())
    assert table.schema == PLAN_SCHEMA
    assert table.column_names == ["epoch", "position", "row_id", "kind"]
    assert to_table([]).num_rows == 0
