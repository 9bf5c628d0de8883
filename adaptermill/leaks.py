"""Leaks: held-out rows that stand among the training rows too, word for word or nearly.

Only rows that are trained on or evaluated count: injected mistakes and copied prefixes do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from adaptermill.minhash import Index, classes
from adaptermill.signatures import Signed

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
    train, heldout = _sides(rows)
    duplicates = {}
    for name, columns in COMPARED.items():
        twins = _twins(train, heldout, columns)
        duplicates[name] = _counted(twins[["row_id", "row_id_train", "family"]])
    return {
        "training_rows": len(train),
        "heldout_rows": len(heldout),
        "duplicates": duplicates,
    }


def near_report(rows: pd.DataFrame, signed: Signed, threshold: float) -> dict[str, Any]:
    """How many held-out rows without an exact twin have a near one among the training rows.

    The same comparisons as in `leak_report`: near are prompts, or prompts with their answers, whose
    sets of n-grams are alike by at least `threshold`; screenshots are the same ones. An example is
    the held-out row with the training row that is most like it. `rows` has `screenshots`, a text
    that names a row's screenshots by content.
    """
    train, heldout = _sides(rows)
    found = {}
    for name, columns in COMPARED.items():
        twins = set(_twins(train, heldout, columns)["row_id"])
        others = heldout[~heldout["row_id"].isin(twins)]
        whole = "prompt" not in name
        same = "screenshots" if name.endswith("_and_screenshot") else None
        signatures = [
            (chosen.whole if whole else chosen.prompts)
            for chosen in (signed.of(list(side["row_id"])) for side in (train, others))
        ]
        found[name] = _counted(_nearest(train, others, *signatures, same, threshold))
    return found


def _sides(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    counted = rows[rows["trainable"]].sort_values("row_id", ignore_index=True)
    heldout = counted["side"].isin(["validation", "test"])
    return counted[counted["side"] == "train"].reset_index(drop=True), (
        counted[heldout].reset_index(drop=True)
    )


def _twins(train: pd.DataFrame, heldout: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    firsts = train.drop_duplicates(columns)[[*columns, "row_id"]]
    return heldout.merge(firsts, on=columns, suffixes=("", "_train"))


def _nearest(
    train: pd.DataFrame,
    heldout: pd.DataFrame,
    of_train: np.ndarray,
    of_heldout: np.ndarray,
    same: str | None,
    threshold: float,
) -> pd.DataFrame:
    """The held-out rows that are near a training row, each with the one that is most like it.

    `same` names a column that must be equal too.
    """
    columns = ["row_id", "row_id_train", "family", "similarity"]
    if train.empty or heldout.empty:
        return pd.DataFrame(columns=columns)
    conditions = [np.zeros(len(side), np.uint32) for side in (train, heldout)]
    if same is not None:
        codes, _ = pd.factorize(pd.concat([train[same], heldout[same]]))
        conditions = np.split(codes.astype(np.uint32), [len(train)])
    asked, class_of = classes(np.column_stack([of_heldout, conditions[1]]))
    index = Index(of_heldout[asked], threshold)
    for number in range(len(asked)):
        index.add(number)
    # The held-out side is the small one, so it is what the index holds.
    best: dict[int, tuple[float, int]] = {}
    for line in np.sort(classes(np.column_stack([of_train, conditions[0]]))[0]):
        for number, similarity in index.near(of_train[line]):
            if conditions[1][asked[number]] != conditions[0][line]:
                continue
            if number not in best or similarity > best[number][0]:
                best[number] = (similarity, int(line))
    near = [line for line, number in enumerate(class_of) if number in best]
    chosen = [best[class_of[line]] for line in near]
    return pd.DataFrame(
        {
            "row_id": heldout["row_id"].to_numpy()[near],
            "row_id_train": train["row_id"].to_numpy()[[line for _, line in chosen]],
            "family": heldout["family"].to_numpy()[near],
            "similarity": [round(similarity, 4) for similarity, _ in chosen],
        }
    )


def _counted(pairs: pd.DataFrame) -> dict[str, Any]:
    named = pairs.rename(columns={"row_id": "heldout", "row_id_train": "train"})
    examples = named.sort_values("heldout").head(EXAMPLES)
    return {"heldout_rows": len(pairs), "examples": examples.to_dict("records")}


def readable(report: Mapping[str, Any]) -> str:
    lines = [f"leaks: {report['heldout_rows']} held-out rows against {report['training_rows']}"]
    for name, found in report["duplicates"].items():
        lines.append(f"  {found['heldout_rows']:>6} with an exact twin by {name.replace('_', ' ')}")
    near = report.get("near_duplicates")
    if near is not None:
        for name, found in near["compared"].items():
            lines.append(f"  {found['heldout_rows']:>6} others near by {name.replace('_', ' ')}")
        lines.append(
            f"  (near: {near['threshold']:.0%} of their runs of {near['ngram']} words are shared)"
        )
    return "\n".join(lines)
