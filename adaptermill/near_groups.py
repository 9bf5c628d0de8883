"""Groups of near-duplicate episodes, for `split.group_by: near_duplicates`.

Episodes of one source are tied to the episodes that are near them (minhash.py), to those that share
a row with them word for word and pixel for pixel, and to all others of their source. What hangs
together is a group, and its key is its smallest source. Nothing but the episodes' content and names
decides; the price is that a new episode which is near two groups makes one of them.

A chain is made from several sources, so it ties nothing together: it belongs to the groups of its
sources, of the episodes that it is near, and of the chains that it is near.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from adaptermill.minhash import Index, classes


def near_groups(
    sources: Sequence[Sequence[str]],
    signatures: np.ndarray,
    contents: Sequence[Iterable[str]],
    threshold: float,
) -> list[list[str]]:
    """The group keys of each episode, sorted.

    Of every episode: its sources, its signature (uint32 [episodes, permutations]) and the hashes of
    its rows' contents.
    """
    single = [line for line, own in enumerate(sources) if len(set(own)) == 1]
    chains = [line for line, own in enumerate(sources) if len(set(own)) > 1]
    groups = DisjointSet({source for own in sources for source in own})
    firsts, index, holders = _tie(single, signatures, contents, threshold, groups, sources)
    keys = {source: min(members) for members in groups.subsets() for source in members}

    chain_sets = DisjointSet(chains)
    _tie(chains, signatures, contents, threshold, chain_sets, None)
    touched: dict[int, set[str]] = {}
    for line in chains:
        near = {firsts[place] for place, _ in index.near(signatures[line])} if index else set()
        near |= {holders[content] for content in contents[line] if content in holders}
        own = {*sources[line], *(sources[other][0] for other in near)}
        touched.setdefault(chain_sets[line], set()).update(keys[source] for source in own)
    return [
        sorted(touched[chain_sets[line]]) if line in chain_sets else [keys[own[0]]]
        for line, own in enumerate(sources)
    ]


def _tie(
    lines: Sequence[int],
    signatures: np.ndarray,
    contents: Sequence[Iterable[str]],
    threshold: float,
    sets: DisjointSet,
    sources: Sequence[Sequence[str]] | None,
) -> tuple[list[int], Index | None, dict[str, int]]:
    """Merges the sets of episodes that are near each other or share a row.

    The sets are of sources (where `sources` are given) or of the lines themselves. Returns a line
    per distinct signature, the index of those signatures, and who holds which content.
    """

    def member(line: int) -> int | str:
        return line if sources is None else sources[line][0]

    holders: dict[str, int] = {}
    if not lines:
        return [], None, holders
    places, class_of = classes(signatures[list(lines)])
    firsts = [lines[place] for place in places]
    for line, number in zip(lines, class_of, strict=True):
        sets.merge(member(line), member(firsts[number]))
        for content in contents[line]:
            sets.merge(member(line), member(holders.setdefault(content, line)))
    index = Index(signatures[firsts], threshold)
    for number, line in enumerate(firsts):
        for other, _ in index.near(signatures[line]):
            sets.merge(member(line), member(firsts[other]))
        index.add(number)
    return firsts, index, holders
