"""Row lengths under the base, and which rows cannot be used for theirs.

The counts come from the measuring stage (scripts/measure.py), the limit from the configuration.
"""

from __future__ import annotations

import pandas as pd

from adaptermill.errors import UserError

COUNTS = ["prompt_tokens", "target_tokens", "image_tokens"]


def with_lengths(rows: pd.DataFrame, measures: pd.DataFrame, max_tokens: int) -> pd.DataFrame:
    """The row index joined with its token counts, in its order.

    Adds COUNTS (null where a row cannot be encoded), `unfit` and `unfit_detail`. A row is unfit as
    `template_prefix`, or as `too_long` when prompt and target together are over `max_tokens`; null
    for all others. `UserError` when a row was not measured.
    """
    measured = measures[["row_id", *COUNTS, "reason", "detail"]]
    joined = rows.merge(measured, on="row_id", how="left", validate="one_to_one", indicator=True)
    missing = joined.loc[joined["_merge"] != "both", "row_id"]
    if len(missing):
        raise UserError(
            f"{len(missing)} of {len(joined)} rows were not measured, {missing.iloc[0]} for one; "
            "the token counts are older than the rows: build results/base/measures.parquet again"
        )
    total = joined["prompt_tokens"] + joined["target_tokens"]
    over = total > max_tokens
    said = total[over].map(lambda count: f"{count:.0f} tokens, base.max_tokens is {max_tokens}")
    unfit = joined["reason"].mask(over, "too_long")
    detail = joined["detail"].mask(over, said)
    joined = joined.drop(columns=["_merge", "reason", "detail"])
    return joined.assign(unfit=unfit, unfit_detail=detail)
