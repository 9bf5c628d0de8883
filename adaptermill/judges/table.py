"""The published verdicts of a judge: `results/judged/<judge>.parquet`."""

from __future__ import annotations

import pyarrow as pa

# `judge` and `configured` in the file's metadata say whose verdicts these are (see labels.py).
JUDGED_SCHEMA = pa.schema(
    [
        # of the row, the message or the rollout
        pa.field("row_id", pa.string(), nullable=False),
        pa.field("content_hash", pa.string(), nullable=False),
        # from 0 to 1; null where the judge could not say
        pa.field("reward", pa.float64()),
        # a word or two that can be counted: yes, no, right, not_json, unreadable, …
        pa.field("verdict", pa.string(), nullable=False),
        # why, or the judge's own words
        pa.field("detail", pa.string()),
        # the judge's fingerprint
        pa.field("judge", pa.string(), nullable=False),
    ]
)
