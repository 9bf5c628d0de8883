"""The verdicts that a fit set asks for, joined to its rows; others' verdicts are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from adaptermill.errors import UserError

LABELS = ["reward", "verdict", "verdict_detail", "judge"]


def read_labels(path: Path | None, judge: str, configured: str) -> pd.DataFrame:
    """The judge's table (judges/table.py), with LABELS.

    `UserError`, with the command that mends it, when there is none, or when it holds the verdicts
    of another judge, or of this one under other settings, template or code.
    """
    mend = f"Make the verdicts with\n  snakemake --cores all results/judged/{judge}.parquet"
    if path is None or not path.is_file():
        where = "no table of verdicts was given" if path is None else f"there is no {path}"
        raise UserError(f"the fit set asks for the judge {judge!r}, and {where}. {mend}")
    table = pq.read_table(path)
    noted = {name.decode(): value.decode() for name, value in (table.schema.metadata or {}).items()}
    if noted.get("judge") != judge:
        other = noted.get("judge")
        raise UserError(f"{path} holds verdicts of {other!r}, not of {judge!r}. {mend}")
    if noted.get("configured") != configured:
        raise UserError(
            f"{path} holds verdicts that the judge {judge!r} gave under other settings, with "
            f"another template or code. {mend}"
        )
    labels = table.to_pandas().rename(columns={"detail": "verdict_detail"})
    return labels.astype({name: object for name in LABELS if name != "reward"})


def with_labels(rows: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """The rows with their LABELS, null where a row was not judged as it is now."""
    keys = ["row_id", "content_hash"]
    return rows.merge(labels[[*keys, *LABELS]], on=keys, how="left", validate="one_to_one")


def rejections(rows: pd.DataFrame, recipe: Mapping[str, Any]) -> pd.DataFrame:
    """For each row with LABELS: `out`, and the `reason` and `detail` of a rejection.

    A row is rejected when its reward is below `judge_threshold`, or when the judge could not say.
    `UserError` when a row has no verdict at all.
    """
    missing = rows.loc[rows["judge"].isna(), "row_id"]
    if len(missing):
        raise UserError(
            f"{len(missing)} of {len(rows)} rows have no verdict of the judge {recipe['judge']!r}, "
            f"{missing.iloc[0]} for one; judge them with\n"
            f"  snakemake --cores all --forcerun judge -- results/judged/{recipe['judge']}.parquet"
        )
    silent = rows["reward"].isna()
    below = rows["reward"] < recipe["judge_threshold"]
    reason = pd.Series("judge_rejected", rows.index, dtype=object).mask(silent, "judge_silent")
    return pd.DataFrame(
        {"out": silent | below, "reason": reason, "detail": _details(rows)}, index=rows.index
    )


def _details(rows: pd.DataFrame) -> pd.Series:
    said = [
        f"{verdict}{'' if pd.isna(reward) else f' (reward {reward:.4g})'}"
        f"{'' if pd.isna(detail) else f': {detail}'}"
        for verdict, reward, detail in zip(
            rows["verdict"], rows["reward"], rows["verdict_detail"], strict=True
        )
    ]
    return pd.Series(said, rows.index, dtype=object)
