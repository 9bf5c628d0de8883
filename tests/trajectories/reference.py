"""What the examples of messages must be, written plainly: no table, no index, no shared code.

A message is a mapping with row_id, query_id, seat, reward, target, prompt (its hash) and content.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]


def group_of(message: Message) -> tuple:
    return (message["query_id"], message["seat"])


def advantage(message: Message, messages: Sequence[Message]) -> float | None:
    """Reward less the mean reward of the messages of its query and seat that have one."""
    if message["reward"] is None:
        return None
    rewards = [
        other["reward"]
        for other in messages
        if group_of(other) == group_of(message) and other["reward"] is not None
    ]
    return message["reward"] - sum(rewards) / len(rewards)


def visible(text: str) -> str:
    """The text after the last </think>, stripped."""
    return text.split("</think>")[-1].strip()


def capped(messages: Sequence[Message], cap: int) -> list[str]:
    """Row ids that a cap on targets keeps, in order: best advantage first, then the first."""
    kept = set()
    keys = {(message["seat"], visible(message["target"])) for message in messages}
    for key in keys:
        sharing = [
            (place, message)
            for place, message in enumerate(messages)
            if (message["seat"], visible(message["target"])) == key
        ]

        def worth(entry: tuple[int, Message]) -> tuple:
            place, message = entry
            known = message["advantage"] is not None
            return (not known, -message["advantage"] if known else 0, place)

        kept |= {message["row_id"] for _, message in sorted(sharing, key=worth)[:cap]}
    return [message["row_id"] for message in messages if message["row_id"] in kept]


def same_text(one: str, other: str) -> bool:
    words = [unicodedata.normalize("NFC", text).split() for text in (one, other)]
    return words[0] == words[1]


def draw_rank(seed: int, better: Message, worse: Message) -> bytes:
    named = "\0".join(["pair", str(seed), better["content"], worse["content"]])
    return hashlib.sha256(named.encode()).digest()


def pairs(
    messages: Sequence[Message], pair_prompt: str, max_pairs: int, seed: int
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """(chosen, rejected) by row id, sorted, and how many there could be and fell out."""
    candidates = [
        (better, worse)
        for better in messages
        for worse in messages
        if group_of(better) == group_of(worse)
        and better["reward"] > worse["reward"]
        and (pair_prompt == "chosen" or better["prompt"] == worse["prompt"])
    ]
    unequal = [pair for pair in candidates if not same_text(pair[0]["target"], pair[1]["target"])]
    drawn: list[tuple[str, str]] = []
    for group in {group_of(message) for message in messages}:
        own = [pair for pair in unequal if group_of(pair[0]) == group]
        own.sort(key=lambda pair: (draw_rank(seed, *pair), pair[0]["row_id"], pair[1]["row_id"]))
        drawn += [(better["row_id"], worse["row_id"]) for better, worse in own[:max_pairs]]
    return sorted(drawn), {
        "candidates": len(candidates),
        "equal_texts": len(candidates) - len(unequal),
        "not_drawn": len(unequal) - len(drawn),
    }
