"""From selected messages to the lines of a `dpo` fit set: two for each pair.

A line of kind `chosen` is its row as it stands. The line of kind `rejected` with the same `pair_id`
names the row whose target is the rejected answer; its prompt is that of the chosen row, as its
token counts and its content hash say. A row may stand in several pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from adaptermill.fitsets.plan import rank
from adaptermill.fitsets.select import Selection
from adaptermill.rows.schema import digest
from adaptermill.trajectories.caps import over_cap
from adaptermill.trajectories.pairs import make_pairs

# Why a message is in no pair -> the stage that left it out.
_STAGES = {
    "unpaired": "pairs",
    "equal_texts": "pairs",
    "pair_not_drawn": "pairs",
    "duplicate": "dedup",
    "limit": "selection",
}
_OF_PROMPT = ["text_hash", "prompt_hash", "prompt_tokens", "image_tokens"]


def pair_up(
    chosen: Selection, making: Mapping[str, Any], recipe: Mapping[str, Any]
) -> dict[str, int]:
    """Puts the kept messages into pairs, which become the lines kept; messages in none are dropped.

    Caps look at the chosen answer of a pair. Returns how many pairs there could be and what became
    of them: `candidates` is the sum of the others.
    """
    found = make_pairs(chosen.kept, making["pair_prompt"], making["max_pairs"], recipe["seed"])
    messages = chosen.kept.set_index("row_id", drop=False)
    why = dict(found.why)
    best = messages.loc[found.table["chosen"]].reset_index(drop=True)
    over_it = over_cap(best, making["dedup"], ["seat"]).notna()
    capped = _without(found.table, over_it, "duplicate", why)
    limited = capped
    if recipe["limit"] is not None:
        ranks = _ranks(capped, messages["content_hash"], recipe["seed"])
        over = sorted(range(len(capped)), key=ranks.__getitem__)[recipe["limit"] :]
        limited = _without(capped, pd.Series(capped.index.isin(over)), "limit", why)
    reasons = chosen.kept["row_id"].map(why)
    for reason, stage in _STAGES.items():
        chosen.drop(reasons.reindex(chosen.kept.index) == reason, stage, reason)
    chosen.kept = pair_lines(messages, limited)
    return {
        "candidates": found.candidates,
        "kept": len(limited),
        "equal_texts": found.equal_texts,
        "not_drawn": found.not_drawn,
        "duplicate": len(found.table) - len(capped),
        "limit": len(capped) - len(limited),
    }


def _without(pairs: pd.DataFrame, out: pd.Series, reason: str, why: dict[str, str]) -> pd.DataFrame:
    """The other pairs; messages that are in none of them any more are noted in `why`."""
    kept = pairs[~out.to_numpy(dtype=bool)].reset_index(drop=True)
    left = {*kept["chosen"], *kept["rejected"]}
    for row_id in {*pairs["chosen"], *pairs["rejected"]} - left:
        why[row_id] = reason
    return kept


def _ranks(pairs: pd.DataFrame, contents: pd.Series, seed: int) -> list[bytes]:
    both = zip(contents.loc[pairs["chosen"]], contents.loc[pairs["rejected"]], strict=True)
    return [rank("limit", seed, *pair) for pair in both]


def pair_lines(messages: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Two lines for each pair, its chosen message first. `messages` is indexed by row id."""
    best = messages.loc[pairs["chosen"]].assign(kind="chosen").reset_index(drop=True)
    worst = messages.loc[pairs["rejected"]].assign(kind="rejected").reset_index(drop=True)
    worst[_OF_PROMPT] = best[_OF_PROMPT]
    under = zip(best["prompt_hash"], worst["target"], strict=True)
    contents = [digest(prompt, target) for prompt, target in under]
    both = [one + other for one, other in zip(best["content_hash"], contents, strict=True)]
    worst["content_hash"] = pd.Series(contents, worst.index, dtype=object)
    lines = [
        # `pair_content` tells one pair from another, whatever its rows are called.
        side.assign(pair_id=pairs["pair_id"].to_numpy(), pair_content=both, _side=number)
        for number, side in enumerate((best, worst))
    ]
    ordered = pd.concat(lines).rename_axis("_pair").sort_values(["_pair", "_side"], kind="stable")
    return ordered.drop(columns="_side").reset_index(drop=True)
