"""De-duplication: at most `cap` examples of a kind share a key, or are near each other.

    repeats = exact_duplicates(kept, {"key": "target", "cap": 3})
    repeats = near_duplicates(kept, {"key": "target", "cap": 1, "near": {...}}, signed)
    kept = kept[repeats.isna()]

Both say line by line which example (by `row_id`, one that stays) a duplicate repeats; null for
those that stay. Where examples have an advantage, those with the highest stay; among equals, and
where there is none, the first ones in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from adaptermill.minhash import Index
from adaptermill.signatures import Signed

KEYS = {
    "target": ["target_hash"],
    "prompt+target": ["text_hash", "target_hash"],
    "prompt+target+images": ["content_hash"],
}


def preferred(kept: pd.DataFrame) -> pd.DataFrame:
    """The examples by falling advantage; those without one come last, equals keep their order."""
    if "advantage" not in kept:
        return kept
    advantage = pd.to_numeric(kept["advantage"])
    order = advantage.sort_values(ascending=False, kind="stable", na_position="last")
    return kept.loc[order.index]


def exact_duplicates(kept: pd.DataFrame, dedup: Mapping[str, Any]) -> pd.Series:
    """Examples over the cap of those that share a key; each repeats the best one of its key."""
    ordered = preferred(kept)
    groups = ordered.groupby(["kind", *KEYS[dedup["key"]]], sort=False)
    over = groups.cumcount() >= dedup["cap"]
    best = groups["row_id"].transform("first").astype(object)
    return best.where(over, None).reindex(kept.index)


def near_duplicates(kept: pd.DataFrame, dedup: Mapping[str, Any], signed: Signed) -> pd.Series:
    """Examples near `cap` better ones that stay; each repeats the one of them it is most like.

    Near are the texts of the key, by `signed` (of the rows of `kept`, in their order); where the
    key has images, they must be the same ones.
    """
    signatures = signed.answers if dedup["key"] == "target" else signed.whole
    same = kept["kind"]
    if dedup["key"] == "prompt+target+images":
        same = same + "\0" + kept["screenshots"]
    conditions, _ = pd.factorize(same)
    names = list(kept["row_id"])
    index = Index(signatures, dedup["near"]["threshold"])
    place_of = pd.Series(range(len(kept)), kept.index)
    repeats: list[str | None] = [None] * len(kept)
    for place in place_of[preferred(kept).index]:
        near = [
            other
            for other, _ in index.near(signatures[place])
            if conditions[other] == conditions[place]
        ]
        if len(near) >= dedup["cap"]:
            repeats[place] = names[near[0]]
        else:
            index.add(place)
    return pd.Series(repeats, kept.index, dtype=object)
