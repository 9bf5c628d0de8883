"""Near-duplicate episodes are one group, chains tie nothing together, order does not matter."""

import random

import numpy as np
from hypothesis import given
from hypothesis import settings as trial
from hypothesis import strategies as st

from adaptermill.minhash import Signer
from adaptermill.near_groups import near_groups
from adaptermill.splits import side_of_episode

THRESHOLD = 0.7
SIGN = Signer(3, 64)


def text(topic: int, version: int = 0) -> str:
    """Versions of a topic differ in a word and are near each other; topics share nothing."""
    words = [f"t{topic}w{k}" for k in range(80)]
    if version:
        words[40] = f"v{version}"
    return " ".join(words)


def groups(*episodes: tuple[list[str], str], contents: list[list[str]] | None = None):
    """The groups of episodes given as (sources, text)."""
    signatures = np.stack([SIGN([said]) for _, said in episodes])
    contents = contents or [[f"row {said}"] for _, said in episodes]
    return near_groups([sources for sources, _ in episodes], signatures, contents, THRESHOLD)


def test_near_episodes_share_the_smallest_source_and_others_keep_their_own():
    assert groups((["b"], text(0)), (["a"], text(0, 1)), (["c"], text(0, 2)), (["d"], text(1))) == [
        ["a"],
        ["a"],
        ["a"],
        ["d"],
    ]


def test_an_episode_and_its_recovery_stay_together_and_tie_their_copies():
    said = [(["b"], text(0)), (["b"], text(1)), (["a"], text(1, 1)), (["c"], text(2))]
    assert groups(*said) == [["a"], ["a"], ["a"], ["c"]]


def test_a_shared_row_ties_episodes_that_are_not_near():
    said = [(["b"], text(0)), (["a"], text(1)), (["c"], text(2))]
    contents = [["x", "one"], ["one"], ["y"]]
    assert groups(*said, contents=contents) == [["a"], ["a"], ["c"]]


def test_a_chain_belongs_to_its_sources_and_ties_nothing():
    said = [(["a"], text(0)), (["b"], text(1)), (["b", "a"], text(2)), (["c", "z"], text(3))]
    assert groups(*said) == [["a"], ["b"], ["a", "b"], ["c", "z"]]


def test_a_chain_belongs_to_what_it_is_near_too():
    said = [
        *((["a"], text(0)), (["b"], text(1)), (["c"], text(2))),
        (["b", "c"], text(0, 1)),
        (["x", "y"], text(5)),
        (["v", "w"], text(5, 1)),
    ]
    found = groups(*said)
    assert found[:3] == [["a"], ["b"], ["c"]]
    assert found[3] == ["a", "b", "c"]
    assert found[4] == found[5] == ["v", "w", "x", "y"]


NAMES = [f"s{k}" for k in range(12)]
some = st.lists(
    st.tuples(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True),
        st.builds(text, st.integers(0, 4), st.integers(0, 3)),
    ),
    min_size=1,
    max_size=12,
)


def sides(found: list[list[str]]) -> list[str]:
    return [side_of_episode(own, 0.4) for own in found]


@trial(deadline=None, max_examples=60)
@given(some, st.randoms(use_true_random=False))
def test_order_does_not_matter(episodes, randomness: random.Random):
    order = list(range(len(episodes)))
    randomness.shuffle(order)
    straight, shuffled = groups(*episodes), groups(*(episodes[k] for k in order))
    assert shuffled == [straight[k] for k in order]


@trial(deadline=None, max_examples=60)
@given(some)
def test_near_episodes_and_episodes_of_one_source_are_never_on_both_sides(episodes):
    found = sides(groups(*episodes))
    topics = [said.split("w")[0] for _, said in episodes]
    for one in range(len(episodes)):
        for other in range(one):
            near = topics[one] == topics[other]
            related = set(episodes[one][0]) & set(episodes[other][0])
            if near or related:
                assert {found[one], found[other]} != {"train", "validation"}


@trial(deadline=None, max_examples=60)
@given(some, some)
def test_new_episodes_that_are_near_no_old_one_move_nothing(old, new):
    apart = [([f"new-{name}" for name in names], f"new {said} new") for names, said in new]
    apart = [(names, said.replace("t", "n")) for names, said in apart]
    assert groups(*old, *apart)[: len(old)] == groups(*old)


def test_joining_two_groups_takes_the_smallest_name():
    # Halves of both topics: near to each of them, at a threshold of one third.
    first, second = text(0), text(1)
    bridge = f"{first} {second}"
    signatures = [SIGN([each]) for each in (first, second, bridge)]
    contents = [["1"], ["2"], ["3"]]
    apart = near_groups([["b"], ["a"]], np.stack(signatures[:2]), contents[:2], 0.3)
    joined = near_groups([["b"], ["a"], ["c"]], np.stack(signatures), contents, 0.3)
    assert (apart, joined) == ([["b"], ["a"]], [["a"]] * 3)
