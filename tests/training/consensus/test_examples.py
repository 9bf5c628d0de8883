from collections import Counter

import pandas as pd
import pytest

from adaptermill.errors import UserError
from adaptermill.rows import nodes as places
from adaptermill.training.checkpoint import Refusal
from adaptermill.training.consensus.examples import (
    Answer,
    Example,
    Minibatches,
    make_nodes,
    read_examples,
)

BY_SEAT = {"partition": "seat", "n_partitions": 4, "pooled": False, "heldout_fraction": 0.0}


def example(number: int, seat: int = 0, query: str | None = None) -> Example:
    answer = Answer(f"r{number}", f"r{number}", f"c{number:03}")
    return Example(answer, None, f"role{seat}", seat, query or f"q{number}", 1.0)


def test_roles_have_equal_parts_of_every_batch():
    examples = [example(n, 0) for n in range(40)] + [example(n, 1) for n in range(40, 43)]
    balanced = Minibatches(examples, 4, seed=0, balanced=True)
    plain = Minibatches(examples, 4, seed=0, balanced=False)
    for step in range(30):
        assert Counter(e.role for e in balanced.batch(step)) == {"role0": 2, "role1": 2}
    share = sum(e.role == "role1" for step in range(43) for e in plain.batch(step)) / (4 * 43)
    assert share == pytest.approx(3 / 43)


def test_every_example_comes_once_before_any_comes_again():
    examples = [example(n) for n in range(10)]
    batches = Minibatches(examples, 5, seed=3, balanced=True)
    times = [
        [e.content for step in (2 * t, 2 * t + 1) for e in batches.batch(step)] for t in range(4)
    ]
    for time in times:
        assert sorted(time) == [e.content for e in examples]
    assert len({tuple(time) for time in times}) == 4  # drawn anew every time


def test_minibatches_are_a_function_of_seed_step_and_content():
    examples = [example(n, n % 3) for n in range(20)]
    expected = [Minibatches(examples, 8, 1, True).batch(step) for step in range(9)]
    again = Minibatches(examples[::-1], 8, 1, True)
    for step in (8, 3, 0, 8, 5):  # in any order, as after an interruption
        assert again.batch(step) == expected[step]
    assert Minibatches(examples, 8, 2, True).batch(0) != expected[0]


def test_examples_are_dealt_to_nodes():
    examples = [example(n, n % 3, f"q{n // 3}") for n in range(300)]
    names = [node.name for node in make_nodes(examples, BY_SEAT)]
    assert names == ["seat_0", "seat_1", "seat_2"]
    (pooled,) = make_nodes(examples, {**BY_SEAT, "pooled": True})
    assert pooled.name == "pooled" and len(pooled.fitted) == 300
    parts = make_nodes(examples, {**BY_SEAT, "partition": "anchor", "n_partitions": 3})
    assert [part.name for part in parts] == ["part_0", "part_1", "part_2"]
    assert sum(len(part.fitted) for part in parts) == 300
    queries = [{e.query_id for e in part.fitted} for part in parts]
    assert not queries[0] & queries[1] and not queries[1] & queries[2]
    assert sorted(["seat_10", "seat_2"], key=places.order) == ["seat_2", "seat_10"]


def test_held_out_queries_are_kept_out_of_every_arm_alike():
    examples = [example(n, n % 3, f"q{n // 3}") for n in range(300)]
    found = []
    for arm in ({}, {"pooled": True}, {"partition": "anchor"}):
        nodes = make_nodes(examples, {**BY_SEAT, "heldout_fraction": 0.2, **arm})
        held_out = {e.query_id for node in nodes for e in node.held_out}
        assert not held_out & {e.query_id for node in nodes for e in node.fitted}
        found.append(held_out)
    assert found[0] == found[1] == found[2] and 10 <= len(found[0]) <= 30
    with pytest.raises(Refusal, match="keeps no query out"):
        make_nodes([example(0), example(1)], {**BY_SEAT, "heldout_fraction": 1e-6})


def test_thin_nodes_are_refused():
    few = [example(n) for n in range(20)]
    with pytest.raises(Refusal, match="needs 16 examples: part_0 has"):
        make_nodes(few, {**BY_SEAT, "partition": "anchor", "n_partitions": 2})
    nodes = make_nodes([*few, example(20, 1)], BY_SEAT)  # by seat any number will do
    assert [len(node.fitted) for node in nodes] == [20, 1]


def test_fit_sets_of_another_kind_are_refused(agents, tmp_path):
    pairs, _ = agents.fitset(tmp_path / "dpo")
    messages, _ = agents.fitset(tmp_path / "sft", trajectories={"examples": "sft"})
    found = read_examples(pairs, "dpo")
    lines = pd.read_parquet(pairs)
    assert 2 * len(found) == len(lines)
    for each in found:
        assert each.rejected.prompt == each.chosen.prompt != each.rejected.target
    assert {e.rejected for e in read_examples(messages, "sft")} == {None}
    with pytest.raises(Refusal, match=r"holds no dpo example \(it has ce\): there is nothing"):
        read_examples(messages, "dpo")
    with pytest.raises(Refusal, match="holds no sft example"):
        read_examples(pairs, "sft")
    unlabelled = tmp_path / "unlabelled.parquet"
    pd.read_parquet(messages).assign(reward=None).astype({"reward": "float64"}).to_parquet(
        unlabelled
    )
    assert read_examples(unlabelled, "sft")
    with pytest.raises(Refusal, match="without a reward, and rsft chooses by rewards"):
        read_examples(unlabelled, "rsft")


def test_a_seat_without_examples_is_refused_when_the_fit_set_is_made(agents, tmp_path):
    with pytest.raises(UserError, match="nothing to train on for a node: seat_0 has 0"):
        agents.fitset(tmp_path / "a", trajectories={"max_target_tokens": 5})
    with pytest.raises(UserError, match=r"needs 16 examples: part_0 has \d+, .*Lower n_partitions"):
        agents.fitset(tmp_path / "b", partition="anchor", n_partitions=12)
