"""Preference pairs: within one group, a message of higher reward and one of lower reward.

    found = make_pairs(messages, pair_prompt="chosen", max_pairs=4, seed=0)

Where the seats before spoke differently, the two prompts differ. Under `chosen` a pair keeps the
chosen one's prompt for both answers; under `same_only` there are only pairs of one prompt.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

import pandas as pd

from adaptermill.fitsets.plan import rank
from adaptermill.rows.schema import digest
from adaptermill.trajectories.advantages import GROUP

PAIR_COLUMNS = ["pair_id", "chosen", "rejected"]
_PAIR_ID_LENGTH = 16


def normalised(text: str) -> str:
    """The text by which answers count as equal: NFC, runs of white space as one space."""
    return " ".join(unicodedata.normalize("NFC", text).split())


@dataclass
class Pairs:
    """Pairs in the order of their chosen, then their rejected message.

    `table` has PAIR_COLUMNS, the messages by row id. `candidates` counts all pairs of unequal
    reward (and one prompt, where asked); of them `equal_texts` say the same and `not_drawn` were
    over `max_pairs`. `why` says of every message in no pair why.
    """

    table: pd.DataFrame
    candidates: int = 0
    equal_texts: int = 0
    not_drawn: int = 0
    why: dict[str, str] = field(default_factory=dict)


def make_pairs(messages: pd.DataFrame, pair_prompt: str, max_pairs: int, seed: int) -> Pairs:
    """At most `max_pairs` pairs of each group, drawn by the seed and what the messages say.

    `messages` has GROUP, row_id, reward, target, prompt_hash and content_hash; every reward is
    there.
    """
    found = Pairs(pd.DataFrame(columns=PAIR_COLUMNS))
    chosen: list[tuple[str, str]] = []
    columns = ["row_id", "reward", "target", "prompt_hash", "content_hash"]
    for _, group in messages.groupby(GROUP, sort=False, dropna=False):
        lines = [(*line, normalised(line[2])) for line in group[columns].itertuples(index=False)]
        chosen += _of_group(lines, pair_prompt == "same_only", max_pairs, seed, found)
    place = {row_id: number for number, row_id in enumerate(messages["row_id"])}
    chosen.sort(key=lambda pair: (place[pair[0]], place[pair[1]]))
    found.table = pd.DataFrame(
        [(digest(*pair)[:_PAIR_ID_LENGTH], *pair) for pair in chosen], columns=PAIR_COLUMNS
    )
    for row_id in {row_id for pair in chosen for row_id in pair}:
        found.why.pop(row_id, None)
    return found


def _of_group(
    lines: list[tuple], same_prompt: bool, max_pairs: int, seed: int, found: Pairs
) -> list[tuple[str, str]]:
    """(chosen, rejected) of one group; counts and reasons are noted in `found`."""
    possible = []
    for row_id, *_ in lines:
        found.why[row_id] = "unpaired"
    for better, reward, _, prompt, content, text in lines:
        for worse, lower, _, other_prompt, other_content, other_text in lines:
            if not reward > lower or (same_prompt and prompt != other_prompt):
                continue
            found.candidates += 1
            if text == other_text:
                found.equal_texts += 1
                for row_id in (better, worse):
                    if found.why[row_id] == "unpaired":
                        found.why[row_id] = "equal_texts"
                continue
            found.why[better] = found.why[worse] = "pair_not_drawn"
            drawn = rank("pair", seed, content, other_content)
            possible.append((drawn, better, worse))
    possible.sort()
    found.not_drawn += max(0, len(possible) - max_pairs)
    return [(better, worse) for _, better, worse in possible[:max_pairs]]
