"""Messages of a multi-agent system, read from the shards as a table.

    messages = read_messages([Path("results/ingest/mas")])

Credit is *shared*: every message of a rollout has the rollout's reward.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from adaptermill.rows.dataset import shard_paths

_COLUMNS = ["row_id", "messages", "target", "fields"]
COLUMNS = [
    *("row_id", "query_id", "query", "system", "seat", "role", "rollout_id", "rollout", "seed"),
    *("reward", "prefill", "target"),
]


def read_messages(folders: Sequence[Path]) -> pd.DataFrame:
    """A line of COLUMNS per message of ingested sources of trajectories.

    `seat` is the agent's number, `rollout_id` names the rollout in the whole data set, `reward` is
    the recorded one (null where there is none), `prefill` what was given of the output, `target`
    what was generated.
    """
    lines = [line for folder in folders for line in _lines(folder)]
    return pd.DataFrame(lines, columns=COLUMNS).astype({"reward": "float64", "seat": "Int64"})


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in shard_paths(folder, "shards"):
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            for row in file.read_row_group(group, columns=_COLUMNS).to_pylist():
                yield _line(row)


def _line(row: dict[str, Any]) -> dict[str, Any]:
    fields = json.loads(row["fields"])
    rollout = fields["rollout"]
    return {
        "row_id": row["row_id"],
        "query_id": rollout["query_id"],
        "query": rollout["query"],
        "system": rollout.get("system") or "",
        "seat": fields["agent"],
        "role": fields["family"],
        "rollout_id": row["row_id"].rpartition(".")[0],
        "rollout": rollout["rollout"],
        "seed": rollout["seed"],
        "reward": rollout.get("reward"),
        "prefill": given(row["messages"]),
        "target": row["target"],
    }


def given(messages_json: str) -> str:
    """The prefill that a row's messages end with, empty where there is none."""
    # Most rows have none, and their messages need not be read.
    if '"prefill":true' not in messages_json:
        return ""
    last = json.loads(messages_json)[-1]
    return last["content"] if last.get("prefill") is True else ""


# What a view changes of a row in the index.
_HASHES = ["text_hash", "prompt_hash", "target_hash", "content_hash"]


def seen_through(
    view: Path, rows: pd.DataFrame, messages: pd.DataFrame, measures: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Row index, messages and measures with those of the folder `view` (rewrite.py) put in."""
    hashes = pd.concat(
        pq.read_table(path, columns=["row_id", *_HASHES]).to_pandas()
        for path in shard_paths(view, "shards")
    )
    own = pd.read_parquet(view / "measures.parquet")
    others = measures[~measures["row_id"].isin(own["row_id"])]
    return (
        _replaced(rows, hashes, _HASHES),
        _replaced(messages, read_messages([view]), ["prefill", "target"]),
        pd.concat([others, own], ignore_index=True),
    )


def _replaced(table: pd.DataFrame, by: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """The table with those columns from the lines of `by` that have the same row id."""
    found = table[["row_id"]].merge(by[["row_id", *columns]], on="row_id", how="left")
    found.index = table.index
    return table.assign(**{name: found[name].fillna(table[name]) for name in columns})
