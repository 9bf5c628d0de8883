"""A node's examples: messages, or pairs of answers to one prompt; and the minibatches of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from adaptermill.fitsets.plan import rank
from adaptermill.rows import nodes as places
from adaptermill.training.checkpoint import Refusal

_COLUMNS = ["row_id", "family", "kind", "seat", "query_id", "pair_id", "reward", "content_hash"]
PAIRS, MESSAGES = "dpo", ("sft", "rsft")


@dataclass(frozen=True)
class Answer:
    """An answer to a prompt: the row whose prompt it is, that whose target, and their hash."""

    prompt: str
    target: str
    content: str


@dataclass(frozen=True)
class Example:
    """What one loss is made of: an answer, and of a pair the one that it was preferred to."""

    chosen: Answer
    rejected: Answer | None
    role: str
    seat: int
    query_id: str
    reward: float | None

    @property
    def content(self) -> str:
        rejected = self.rejected
        return self.chosen.content + ("" if rejected is None else rejected.content)

    @property
    def answers(self) -> list[Answer]:
        return [self.chosen] if self.rejected is None else [self.chosen, self.rejected]


def read_examples(fitset: Path, objective: str) -> list[Example]:
    """The examples of a fit set in its order.

    `Refusal` for one that is empty, of another kind than the objective, or without the rewards
    that its examples were to be chosen by.
    """
    lines = pq.read_table(fitset, columns=_COLUMNS).to_pylist()
    if objective == PAIRS:
        found = _pairs([line for line in lines if line["kind"] in ("chosen", "rejected")])
    else:
        alone = [line for line in lines if line["kind"] == "ce"]
        found = [_example(line, _answer(line), None) for line in alone]
    if not found:
        kinds = ", ".join(sorted({line["kind"] for line in lines})) or "no line"
        raise Refusal(
            f"{fitset} holds no {objective} example (it has {kinds}): there is nothing to train on"
        )
    if objective != "sft" and any(example.reward is None for example in found):
        raise Refusal(
            f"{fitset} has examples without a reward, and {objective} chooses by rewards: record "
            "or judge them, or train on `examples: sft`"
        )
    return found


def _pairs(lines: Sequence[Mapping[str, Any]]) -> list[Example]:
    found = []
    for best, worst in zip(lines[::2], lines[1::2], strict=True):
        assert best["pair_id"] == worst["pair_id"] and best["kind"] == "chosen"
        rejected = Answer(best["row_id"], worst["row_id"], worst["content_hash"])
        found.append(_example(best, _answer(best), rejected))
    return found


def _answer(line: Mapping[str, Any]) -> Answer:
    return Answer(line["row_id"], line["row_id"], line["content_hash"])


def _example(line: Mapping[str, Any], chosen: Answer, rejected: Answer | None) -> Example:
    return Example(chosen, rejected, line["family"], line["seat"], line["query_id"], line["reward"])


@dataclass
class Node:
    """One node: what it is fitted on, and what it keeps out of the fit."""

    name: str
    fitted: list[Example] = field(default_factory=list)
    held_out: list[Example] = field(default_factory=list)

    @property
    def roles(self) -> list[str]:
        return sorted({example.role for example in self.fitted})

    def described(self) -> dict[str, Any]:
        """For `training.json`: counts of examples by role, and of those held out."""
        by_role = {role: sum(e.role == role for e in self.fitted) for role in self.roles}
        counts = {"examples": len(self.fitted), "held_out": len(self.held_out)}
        queries = len({example.query_id for example in self.fitted})
        return {"name": self.name, **counts, "queries": queries, "roles": by_role}


def make_nodes(examples: Sequence[Example], settings: Mapping[str, Any]) -> list[Node]:
    """The nodes in their order; `Refusal` where one has too few examples."""
    names = places.expected(settings, (example.seat for example in examples))
    nodes = {name: Node(name) for name in names}
    for example in examples:
        node = nodes[places.node_of(example.seat, example.query_id, settings)]
        held_out = places.is_held_out(example.query_id, settings)
        (node.held_out if held_out else node.fitted).append(example)
    fitted = {name: len(node.fitted) for name, node in nodes.items()}
    if (thin := places.why_thin(fitted, names, settings)) is not None:
        raise Refusal(thin)
    if settings["heldout_fraction"] > 0 and not any(node.held_out for node in nodes.values()):
        raise Refusal(
            f"heldout_fraction {settings['heldout_fraction']:g} keeps no query out: there are too "
            "few. Raise it, or set it to 0"
        )
    return list(nodes.values())


class Minibatches:
    """The examples of every local step, as a function of the seed and the step alone.

    Each role's examples are gone through in an order that is drawn anew every time; the places of
    a batch go to the roles in turn (`balanced`), so that a talkative role counts no more.
    """

    def __init__(self, examples: Sequence[Example], size: int, seed: int, balanced: bool) -> None:
        self.size = size
        self.seed = seed
        roles = sorted({example.role for example in examples}) if balanced else [None]
        self.groups = [[e for e in examples if role in (None, e.role)] for role in roles]
        self._orders: dict[tuple[int, int], list[Example]] = {}

    def batch(self, step: int) -> list[Example]:
        """The examples of local step number `step`, counted over all rounds."""
        chosen = []
        for place in range(step * self.size, (step + 1) * self.size):
            turn, group = divmod(place, len(self.groups))
            examples = self.groups[group]
            time, at = divmod(turn, len(examples))
            chosen.append(self._order(group, time)[at])
        return chosen

    def _order(self, group: int, time: int) -> list[Example]:
        if (group, time) not in self._orders:
            self._orders = {k: v for k, v in self._orders.items() if k[0] != group}
            # By content, so that what rows are called does not matter.
            ordered = sorted(
                self.groups[group], key=lambda e: rank("minibatch", self.seed, time, e.content)
            )
            self._orders[group, time] = ordered
        return self._orders[group, time]
