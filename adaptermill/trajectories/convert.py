"""An `sft` fit set as `rsft` or `dpo`: the rewards are in it, so nothing is collected again.

The reverse cannot be: what a narrower set left out is not in it any more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from adaptermill.errors import UserError
from adaptermill.fitsets.select import Selection
from adaptermill.rows.dataset import shard_paths
from adaptermill.trajectories.messages import read_messages
from adaptermill.trajectories.pairing import pair_up

_HASHES = ["row_id", "text_hash", "prompt_hash", "target_hash"]


def read_examples(folder: Path, data: Sequence[Path]) -> tuple[dict[str, Any], pd.DataFrame]:
    """Composition and examples of the fit set in `folder`, with the texts that `data` holds.

    Where two folders hold a row, the first one counts. `UserError` for what is no `sft` set of
    messages, and for a row that no folder holds as the fit set saw it.
    """
    try:
        composition = json.loads((folder / "composition.json").read_text(encoding="utf-8"))
        fitset = pd.read_parquet(folder / "fitset.parquet")
    except OSError as error:
        raise UserError(f"{folder} is no fit set: {error}") from None
    examples = composition.get("examples")
    if examples != "sft":
        what = "rows of browser agents" if examples is None else f"{examples} examples"
        raise UserError(
            f"{folder} holds {what}; only an sft set of messages can be turned into another. Make "
            "one with `trajectories: {examples: sft}`"
        )
    texts = read_messages(data)[["row_id", "query", "system", "target"]]
    paths = [path for each in data for path in shard_paths(each, "shards")]
    hashes = pd.concat([pq.read_table(path, columns=_HASHES).to_pandas() for path in paths])
    frame = fitset.merge(texts.drop_duplicates("row_id"), on="row_id", how="left")
    frame = frame.merge(hashes.drop_duplicates("row_id"), on="row_id", how="left")
    missing = frame.loc[frame["target"].isna(), "row_id"]
    if len(missing):
        raise UserError(
            f"{missing.iloc[0]} of {folder} lies in none of {', '.join(map(str, data))}; give the "
            "sources that it was made of with --data"
        )
    return composition, frame.astype({"seat": "Int64"})


def convert(
    examples: pd.DataFrame, wanted: str, making: Mapping[str, Any], seed: int
) -> tuple[Selection, dict[str, Any]]:
    """The examples as `rsft` or `dpo`, and what is to be noted of pairs.

    `making` has tau, max_pairs, pair_prompt and dedup as in a recipe's `trajectories`. `UserError`
    when nothing is left.
    """
    chosen, found = Selection(examples), {}
    chosen.kept = examples
    chosen.drop(chosen.kept["kind"] != "ce", "selection", "anchor")
    chosen.drop(chosen.kept["reward"].isna(), "selection", "no_reward")
    if wanted == "rsft":
        chosen.drop(chosen.kept["reward"] < making["tau"], "examples", "below_tau")
    else:
        chosen.kept = chosen.kept.drop(columns="pair_id")
        found["pairs"] = pair_up(chosen, making, {"seed": seed, "limit": None})
    if chosen.kept.empty:
        counts = chosen.dropped_table()["reason"].value_counts()
        listed = ", ".join(f"{count} {reason}" for reason, count in counts.items())
        raise UserError(f"no {wanted} example is left of {len(examples)}: {listed}")
    return chosen, found
