"""How long rows are in a base's tokens, found before anything is trained.

A row whose prompt tokens do not begin its full tokens is marked `template_prefix`; nothing is cut.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from adaptermill.models.encode import Encoder, TemplatePrefixError
from adaptermill.rows.dataset import image_sizes, iterate

MEASURE_SCHEMA = pa.schema(
    [
        pa.field("row_id", pa.string(), nullable=False),
        # tokens; the target counts its end-of-turn token; null where the row cannot be encoded
        pa.field("prompt_tokens", pa.int32()),
        pa.field("target_tokens", pa.int32()),
        pa.field("image_tokens", pa.int32()),
        # false: no "action" key in the answer, so its action mask is all true
        pa.field("has_action_key", pa.bool_()),
        # template_prefix, or null for a row that can be trained on
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
    ]
)


def measure_shard(rows: Path, images: Path, encoder: Encoder) -> pa.Table:
    """A line of MEASURE_SCHEMA for every row of the shard, in its order."""
    sizes = image_sizes(images)
    lines: list[dict[str, Any]] = []
    for row in iterate(rows):
        line: dict[str, Any] = {"row_id": row.row_id}
        try:
            made = encoder.measure(row.messages, row.target, [sizes[name] for name in row.images])
            line |= vars(made)
        except TemplatePrefixError as error:
            line |= {"reason": "template_prefix", "detail": str(error)}
        lines.append(line)
    return pa.Table.from_pylist(lines, schema=MEASURE_SCHEMA)
