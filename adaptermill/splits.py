"""Which side an episode is on: training, validation, test, or neither.

Membership is decided by hashes of the names of groups and by nothing else, so no order, process or
machine matters. A group is a source episode unless `split.group_by` says otherwise, and then adding
episodes never moves an old one. By a column that holds as long as sources keep their values; by
near-duplicates, groups can merge. moves.py lists what moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from adaptermill.rows.placing import u

SIDES = ("train", "validation", "test", "mixed")


def side_of_group(group: str, validation_fraction: float, test_fraction: float = 0.0) -> str:
    """The side of one source or group; the test question is asked first."""
    if u(f"test:{group}") < test_fraction:
        return "test"
    return "validation" if u(group) < validation_fraction else "train"


def side_of_episode(
    groups: Iterable[str],
    validation_fraction: float,
    test_fraction: float = 0.0,
    mixed_chains: str = "exclude",
) -> str:
    """The side of an episode made from `groups`.

    Where they disagree: `mixed` under `exclude`, and under `any` held out as soon as one is (test
    before validation).
    """
    sides = {side_of_group(group, validation_fraction, test_fraction) for group in groups}
    if len(sides) == 1:
        return sides.pop()
    if mixed_chains == "exclude":
        return "mixed"
    return "test" if "test" in sides else "validation"


def fraction_key(sources: Iterable[str]) -> float:
    """An episode is inside fraction f when f >= 1 or this is below f; smaller fractions nest."""
    return max(u(f"frac:{source}") for source in sources)


def in_fraction(key: float, fraction: float) -> bool:
    return fraction >= 1 or key < fraction


def groups_of_sources(episodes: pd.DataFrame, column: str) -> tuple[list[list[str]], int]:
    """The groups of each episode for `group_by` a column, and how many sources have none.

    `episodes[column]` holds the values that an episode's own rows carry. A source's groups are the
    values of the episodes made from it alone, so that an episode and its recovery stay together and
    a chain belongs where its parts do. For a part that has no episode of its own, the chain's own
    values serve, and where the chains with that part have no value in common, its name too: they
    must not lie on different sides. A source without any value is its own group.
    """
    known: dict[str, set[str]] = {}
    for sources, values in zip(episodes["sources"], episodes[column], strict=True):
        if len(sources) == 1 and len(values):
            known.setdefault(sources[0], set()).update(values)
    shared: dict[str, set[str]] = {}
    for sources, values in zip(episodes["sources"], episodes[column], strict=True):
        for source in sources:
            shared[source] = shared.get(source, set(values)) & set(values)
    alone: set[str] = set()
    groups = []
    for sources, values in zip(episodes["sources"], episodes[column], strict=True):
        own: set[str] = set()
        for source in sources:
            own |= known.get(source) or set(values)
            if source not in known and not shared[source]:
                own.add(source)
            if source not in known and not len(values):
                alone.add(source)
        groups.append(sorted(own))
    return groups, len(alone)


def split_episodes(
    episodes: pd.DataFrame,
    settings: Mapping[str, object],
    groups: Sequence[Sequence[str]] | None = None,
) -> tuple[pd.DataFrame, int]:
    """Adds `side`, `group` and `fraction_key` to a table with a line per episode.

    `episodes` has `task_id`, `sources` and, where `group_by` is a column, that column as lists of
    values; for `near_duplicates` the `groups` of each episode are given (near_groups.py). Returns
    the table and the number of sources that had to be their own group. A `group` of several names,
    joined by `+`, is a chain's.
    """
    column, alone = str(settings["group_by"]), 0
    if column == "source":
        groups = [sorted(set(sources)) for sources in episodes["sources"]]
    elif groups is None:
        groups, alone = groups_of_sources(episodes, column)
    sides = [
        side_of_episode(
            own,
            float(settings["validation_fraction"]),  # type: ignore[arg-type]
            float(settings["test_fraction"]),  # type: ignore[arg-type]
            str(settings["mixed_chains"]),
        )
        for own in groups
    ]
    names = ["+".join(own) for own in groups]
    keys = [fraction_key(sources) for sources in episodes["sources"]]
    return episodes.assign(side=sides, group=names, fraction_key=keys), alone


def rename(families: pd.Series, renames: Mapping[str, Sequence[str]]) -> pd.Series:
    """Families under the names that the configuration gives them."""
    new_names = {old: new for new, olds in renames.items() for old in olds}
    return families.map(lambda family: new_names.get(family, family))
