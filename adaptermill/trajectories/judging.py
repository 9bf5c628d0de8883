"""Rollouts before a judge: each is an example, and its verdict is the credit of all its messages.

    wanted = wanted_messages(index, messages, settings)       # of one adapter
    examples = rollout_examples(wanted, rows, "outcome")      # for the judge
    messages = judged_rewards(messages, index, labels)        # for the selection

Credit is *shared* (fitsets.md, "Trajectories"): a message has the reward of its rollout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from adaptermill.fitsets.labels import LABELS
from adaptermill.judges.judge import Example
from adaptermill.judges.replay import number, text
from adaptermill.provenance import canonical
from adaptermill.rows.dataset import Rows
from adaptermill.rows.schema import Row
from adaptermill.trajectories.messages import given
from adaptermill.trajectories.select import message_candidates

# Kinds that look at the last agent's prompt and output; the others at the query and the final text.
_OF_THE_LAST_AGENT = {"gold_likelihood"}


def wanted_messages(
    index: pd.DataFrame, messages: pd.DataFrame, settings: Mapping[str, Any]
) -> pd.DataFrame:
    """The messages whose rewards decide the fit set with those `settings`: row_id and rollout_id.

    `index` is the row index, `messages` what `read_messages` found in all sources of trajectories.
    """
    return message_candidates(index, messages, settings).kept[["row_id", "rollout_id"]]


def rollout_examples(wanted: pd.DataFrame, rows: Rows, kind: str) -> Iterator[Example]:
    """An example per message, with what its rollout says: one content a rollout.

    `wanted` has row_id and rollout_id. What is judged is the final text as the answer to the query;
    for `gold_likelihood` the output of the agent that spoke last, under its own prompt.
    """
    for _, own in wanted.groupby("rollout_id", sort=False):
        spoken = rows.get_many(own["row_id"])
        example = _example(max(spoken, key=lambda row: row.step), kind)
        for row in spoken:
            yield Example(row_id=row.row_id, content_hash=row.content_hash, **example)


def _example(last: Row, kind: str) -> dict[str, Any]:
    """What all messages of a rollout share; `last` is the one that was said last."""
    rollout = last.record["rollout"]
    prompt, prefill = last.messages, given(last.messages_json)
    output = prefill + last.target
    images: tuple[str, ...] = ()
    if kind in _OF_THE_LAST_AGENT:
        messages, images = prompt[:-1] if prefill else prompt, last.images
    else:
        messages = [{"role": "user", "content": rollout["query"]}]
        output = rollout.get("final_text") or output
    content = canonical([messages, list(images), output])
    return {
        "messages": messages,
        "output": output,
        "gold": text(rollout.get("gold")),
        "answer_type": rollout["answer_type"],
        "reward": number(rollout.get("reward")),
        "images": images,
        "content": hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest(),
    }


def judged_rewards(
    messages: pd.DataFrame, rows: pd.DataFrame, labels: pd.DataFrame
) -> pd.DataFrame:
    """The messages with LABELS of a judge; its reward takes the place of the recorded one.

    Verdicts are looked up by the content that was judged, before a view rewrites any message.
    """
    hashes = rows[["row_id", "content_hash"]]
    known = hashes.merge(labels[["row_id", "content_hash", *LABELS]], on=["row_id", "content_hash"])
    return messages.drop(columns="reward").merge(
        known[["row_id", *LABELS]], on="row_id", how="left", validate="one_to_one"
    )
