"""Row lengths under a base: the tables' columns, and the tokens that all prompts begin with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
REFUSED_SCHEMA = pa.schema(
    [
        pa.field("row_id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        # template_prefix or too_long
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string()),
        # null where the row cannot be encoded
        pa.field("prompt_tokens", pa.int32()),
        pa.field("target_tokens", pa.int32()),
    ]
)
_METADATA = b"adaptermill"


def refused(measures: pa.Table, max_tokens: int) -> pa.Table:
    """The rows that cannot be trained on (REFUSED_SCHEMA).

    Those marked when they were measured, and those whose prompt and target together have more than
    `max_tokens` tokens (`too_long`).
    """
    total = pc.add(measures["prompt_tokens"], measures["target_tokens"])
    over = pc.fill_null(pc.greater(total, max_tokens), False)
    said = pc.binary_join_element_wise(
        pc.cast(total, pa.string()), f"tokens, base.max_tokens is {max_tokens}", " "
    )
    columns = {
        "row_id": measures["row_id"],
        "source": pc.list_element(pc.split_pattern(measures["row_id"], "/", max_splits=1), 0),
        "reason": pc.if_else(over, "too_long", measures["reason"]),
        "detail": pc.if_else(over, said, measures["detail"]),
        "prompt_tokens": measures["prompt_tokens"],
        "target_tokens": measures["target_tokens"],
    }
    kept = pa.table(columns).filter(pc.or_(over, pc.is_valid(measures["reason"])))
    return kept.cast(REFUSED_SCHEMA)


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
    return _noted(measures.schema)["common_prefix"]


def with_rows(measures: pa.Table, digest: str) -> pa.Table:
    """The table with the hash of the rows that were measured noted beside the common prefix."""
    noted = {**_noted(measures.schema), "rows": digest}
    return measures.replace_schema_metadata({_METADATA: json.dumps(noted)})


def rows_of(schema: pa.Schema) -> str | None:
    """What `with_rows` noted."""
    return _noted(schema).get("rows")


def _noted(schema: pa.Schema) -> dict[str, Any]:
    return json.loads((schema.metadata or {}).get(_METADATA, b"{}"))
