"""What a fit set is made of: its files, its identity, and counts that add up to the input."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from adaptermill.fitsets.plan import Line

FITSET_SCHEMA = pa.schema(
    [
        pa.field("row_id", pa.string(), nullable=False),
        pa.field("task_id", pa.string(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("family", pa.string(), nullable=False),
        pa.field("op", pa.string(), nullable=False),
        pa.field("variant", pa.string(), nullable=False),
        # ce or anchor; chosen or rejected (of a pair, whose prompt is the chosen row's)
        pa.field("kind", pa.string(), nullable=False),
        # of trajectories and judged sets; null for replay rows
        pa.field("seat", pa.int32()),
        pa.field("query_id", pa.string()),
        pa.field("pair_id", pa.string()),
        pa.field("reward", pa.float64()),
        pa.field("advantage", pa.float64()),
        pa.field("judge", pa.string()),
        pa.field("prompt_tokens", pa.int32(), nullable=False),
        pa.field("target_tokens", pa.int32(), nullable=False),
        pa.field("image_tokens", pa.int32(), nullable=False),
        pa.field("content_hash", pa.string(), nullable=False),
    ]
)
DROPPED_SCHEMA = pa.schema(
    [
        pa.field("row_id", pa.string(), nullable=False),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string()),
    ]
)


def lines_hash(lines: Iterable[Sequence[object]]) -> str:
    """A hash over logical lines: 32 hex digits, whatever file they are written to."""
    found = hashlib.sha256()
    for line in lines:
        found.update("\0".join(map(str, line)).encode("utf-8") + b"\n")
    return found.hexdigest()[:32]


def identities(fitset: pd.DataFrame, plan: Sequence[Line]) -> dict[str, str]:
    """The hashes that enter the adapter's key: of the fit set's rows, and of the plan.

    A row counts by its content: the same row under another name (a copied episode, a renamed
    source) changes nothing that is learned. Of pairs it counts who is with whom.
    """
    contents = dict(zip(fitset["row_id"], fitset["content_hash"], strict=True))
    columns = ["kind", "content_hash"]
    if fitset["pair_id"].notna().any():
        columns += ["pair_content", "seat", "query_id"]
    lines = fitset[columns].itertuples(index=False, name=None)
    return {
        "fitset": lines_hash(sorted(lines)),
        "plan": lines_hash(
            (line.epoch, line.position, line.kind, contents[line.row_id]) for line in plan
        ),
    }


def composition(
    adapter: str,
    rows: int,
    fitset: pd.DataFrame,
    dropped: pd.DataFrame,
    plan: Sequence[Line],
    batch_rows: int,
) -> dict[str, Any]:
    """Counts of a fit set. `input` is always the kept rows plus those dropped by reason.

    A row that stands in pairs on both sides is kept as `chosen+rejected`.
    """
    kept = _counts(_kind_of_rows(fitset))
    reasons = _counts(dropped["reason"])
    assert sum(kept.values()) + sum(reasons.values()) == rows, "rows are neither kept nor dropped"
    targets = fitset.loc[fitset["kind"].isin(["ce", "chosen"]), "target_hash"].value_counts()
    composed = {
        "adapter": adapter,
        "input": rows,
        "kept": kept,
        "dropped": reasons,
        "by_family": _counts_by_kind(fitset, "family"),
        "by_op": _counts_by_kind(fitset, "op"),
        "by_variant": _counts_by_kind(fitset, "variant"),
        "distinct_targets": len(targets),
        "top_target_share": round(float(max(targets, default=0) / max(1, targets.sum())), 6),
        "plan": {
            "rows": len(plan),
            "epochs": 1 + max((line.epoch for line in plan), default=-1),
            "steps": -(-len(plan) // batch_rows),
        },
        "hashes": identities(fitset, plan),
    }
    if fitset["judge"].notna().any():
        composed["judge"] = {
            "fingerprint": str(fitset["judge"].dropna().iloc[0]),
            "kept": _counts(fitset["verdict"]),
            "mean_reward": round(float(fitset["reward"].astype(float).mean()), 6),
        }
    return composed


def learned_families(made: Mapping[str, Any]) -> list[str]:
    """The families whose rows are learned: by cross-entropy, or as the better of a pair."""
    by_kind = made["by_family"]
    return sorted({family for kind in ("ce", "chosen") for family in by_kind.get(kind, {})})


def _kind_of_rows(fitset: pd.DataFrame) -> pd.Series:
    """The kind of every row, or its kinds."""
    if fitset["row_id"].is_unique:
        return fitset["kind"]
    kinds = fitset.drop_duplicates(["row_id", "kind"]).sort_values("kind")
    return kinds.groupby("row_id")["kind"].agg("+".join)


def _counts(values: pd.Series) -> dict[str, int]:
    return {str(name): int(count) for name, count in values.value_counts().sort_index().items()}


def _counts_by_kind(fitset: pd.DataFrame, column: str) -> dict[str, dict[str, int]]:
    return {str(kind): _counts(rows[column]) for kind, rows in fitset.groupby("kind", sort=True)}
