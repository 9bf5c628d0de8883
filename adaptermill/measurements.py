"""Row lengths under a base: the table's columns, and the tokens that all prompts begin with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa

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
_METADATA = b"adaptermill"


def common_prefix(prompts: Iterable[Sequence[int]]) -> list[int]:
    """The tokens that all of the prompts begin with."""
    found: list[int] | None = None
    for tokens in prompts:
        if found is None:
            found = list(tokens)
        elif tokens[: len(found)] != found:
            pairs = zip(found, tokens, strict=False)
            ends = min(len(found), len(tokens))
            found = found[: next((k for k, (a, b) in enumerate(pairs) if a != b), ends)]
    return found or []


def with_prefix(measures: pa.Table, prefix: Sequence[int] | None) -> pa.Table:
    """The table with the common prefix of its prompts as metadata (None: there are no prompts)."""
    return measures.replace_schema_metadata({_METADATA: json.dumps({"common_prefix": prefix})})


def prefix_of(measures: pa.Table) -> list[int] | None:
    """What `with_prefix` noted."""
    return json.loads(measures.schema.metadata[_METADATA])["common_prefix"]
