"""Which side an episode is on: training, validation, test, or neither.

Membership is decided by hashes of source names and by nothing else, so adding episodes never moves
an old one, and no order, process or machine matters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

SIDES = ("train", "validation", "test", "mixed")


def u(text: str) -> float:
    """A number in [0, 1] that is fixed by the text: the first 32 bits of its MD5, scaled."""
    return int(hashlib.md5(text.encode("utf-8")).hexdigest()[:8], 16) / 0xFFFFFFFF


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


def groups_of_sources(episodes: pd.DataFrame, column: str) -> tuple[dict[str, str], int]:
    """Source -> group for `group_by: macro` or `site`, and how many sources lack the column.

    A source's group is what its own episodes (not chains) say; a source without one is its own
    group. `episodes` has `sources` (lists) and the column, in a fixed order.
    """
    groups: dict[str, str] = {}
    for sources, value in zip(episodes["sources"], episodes[column], strict=True):
        if len(sources) == 1 and isinstance(value, str):
            groups.setdefault(sources[0], value)
    every = {source for sources in episodes["sources"] for source in sources}
    return groups, len(every - set(groups))


def split_episodes(
    episodes: pd.DataFrame, settings: Mapping[str, object]
) -> tuple[pd.DataFrame, int]:
    """Adds `side`, `group` and `fraction_key` to a table with a line per episode.

    `episodes` has `task_id`, `sources` and, for `group_by` macro or site, that column. Returns the
    table and the number of sources that had to be their own group.
    """
    column = str(settings["group_by"])
    groups, without = ({}, 0) if column == "source" else groups_of_sources(episodes, column)
    sides, names, keys = [], [], []
    for sources in episodes["sources"]:
        own = [groups.get(source, source) for source in sources]
        sides.append(
            side_of_episode(
                own,
                float(settings["validation_fraction"]),  # type: ignore[arg-type]
                float(settings["test_fraction"]),  # type: ignore[arg-type]
                str(settings["mixed_chains"]),
            )
        )
        names.append("+".join(sorted(set(own))))
        keys.append(fraction_key(sources))
    return episodes.assign(side=sides, group=names, fraction_key=keys), without


def rename(families: pd.Series, renames: Mapping[str, Sequence[str]]) -> pd.Series:
    """Families under the names that the configuration gives them."""
    return families.replace({old: new for new, olds in renames.items() for old in olds})
