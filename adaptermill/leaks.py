"""Leaks: held-out rows that stand among the training rows too.

Only rows that are trained on or evaluated count: injected mistakes and copied prefixes do not.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

EXAMPLES = 10
# What is compared -> the columns that must be equal.
COMPARED = {
    "prompt_text": ["text_hash"],
    "prompt_text_and_screenshot": ["prompt_hash"],
    "text": ["text_hash", "target_hash"],
    "text_and_screenshot": ["content_hash"],
}
# Prompt, screenshot and answer are all the same: the row itself is on both sides.
FATAL = "text_and_screenshot"


def leak_report(rows: pd.DataFrame) -> dict[str, Any]:
    """How many held-out rows have an exact twin among the training rows, with examples.

    `text` is prompt and answer, `prompt_text` the prompt alone; `_and_screenshot` compares the
    screenshots' content too. `rows` is the row index with sides.
    """
    counted = rows[rows["trainable"]]
    train = counted[counted["side"] == "train"]
    heldout = counted[counted["side"].isin(["validation", "test"])]
    report: dict[str, Any] = {
        "training_rows": len(train),
        "heldout_rows": len(heldout),
        "duplicates": {},
    }
    for name, columns in COMPARED.items():
        firsts = train.drop_duplicates(columns)[[*columns, "row_id"]]
        twins = heldout.merge(firsts, on=columns, suffixes=("", "_train"))
        pairs = twins.sort_values("row_id")[["row_id", "row_id_train", "family"]]
        report["duplicates"][name] = {
            "heldout_rows": len(pairs),
            "examples": [
                {"heldout": heldout_id, "train": train_id, "family": family}
                for heldout_id, train_id, family in pairs.head(EXAMPLES).itertuples(index=False)
            ],
        }
    return report


def readable(report: dict[str, Any]) -> str:
    lines = [f"leaks: {report['heldout_rows']} held-out rows against {report['training_rows']}"]
    for name, found in report["duplicates"].items():
        lines.append(f"  {found['heldout_rows']:>6} with an exact twin by {name.replace('_', ' ')}")
    return "\n".join(lines)
