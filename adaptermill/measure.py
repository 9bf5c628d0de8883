"""How long rows are in a base's tokens, found before anything is trained.

A row whose prompt tokens do not begin its full tokens is marked `template_prefix`; nothing is cut.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from adaptermill.measurements import MEASURE_SCHEMA, common_prefix, with_prefix
from adaptermill.models.encode import Encoded, Encoder, TemplatePrefixError
from adaptermill.rows.dataset import image_sizes, iterate


def measure_shard(rows: Path, images: Path, encoder: Encoder) -> pa.Table:
    """A line of MEASURE_SCHEMA for every row of the shard, in its order, and the common prefix."""
    sizes = image_sizes(images)
    lines: list[dict[str, Any]] = []
    prefix: list[int] | None = None
    for row in iterate(rows):
        line: dict[str, Any] = {"row_id": row.row_id}
        try:
            made = encoder.tokens(row.messages, row.target, [sizes[name] for name in row.images])
        except TemplatePrefixError as error:
            line |= {"reason": "template_prefix", "detail": str(error)}
        else:
            prompt = made.input_ids[: made.prompt_length].tolist()
            prefix = prompt if prefix is None else common_prefix([prefix, prompt])
            line |= counts(made)
        lines.append(line)
    return with_prefix(pa.Table.from_pylist(lines, schema=MEASURE_SCHEMA), prefix)


def counts(made: Encoded) -> dict[str, Any]:
    """The columns of MEASURE_SCHEMA that an encoded row gives."""
    return {
        "prompt_tokens": made.prompt_length,
        "target_tokens": len(made.targets),
        "image_tokens": made.image_tokens,
        "has_action_key": made.has_action_key,
    }
