"""The per-row predictions of one adapter (or the base): their columns, and the file they lie in.

`results/evaluation/<adapter>.parquet` has a line per held-out row, sorted by `row_id`. Its metadata
says on which held-out rows and base it was made, so that two files are never compared unknowingly.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from adaptermill.atomic import replacing
from adaptermill.errors import UserError

SCHEMA = pa.schema(
    [
        pa.field("row_id", pa.string(), nullable=False),
        pa.field("task_id", pa.string(), nullable=False),
        # after the configuration's renames
        pa.field("family", pa.string(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("op", pa.string(), nullable=False),
        pa.field("variant", pa.string(), nullable=False),
        # validation or test
        pa.field("side", pa.string(), nullable=False),
        # mean and sum of -log p (natural logarithm) over the target tokens, end-of-turn included
        pa.field("nll", pa.float64(), nullable=False),
        pa.field("nll_sum", pa.float64(), nullable=False),
        pa.field("target_tokens", pa.int32(), nullable=False),
        # mean of -log p over the action's tokens: from the "action" key to the end-of-turn
        pa.field("nll_action", pa.float64(), nullable=False),
        pa.field("action_tokens", pa.int32(), nullable=False),
        # whether every token of the action is the most likely one after the recorded ones before it
        pa.field("greedy_match", pa.bool_(), nullable=False),
        # log p of each target token, and which of them are the action's
        pa.field("logps", pa.list_(pa.float32()), nullable=False),
        pa.field("action_mask", pa.list_(pa.bool_()), nullable=False),
        # nll under the adapter as it was after each epoch but the last; empty where none was kept
        pa.field("epochs_nll", pa.list_(pa.float64())),
        # the greedy answer, null when none was generated; cut where it reached max_new_tokens
        pa.field("predicted", pa.string()),
        # the recorded answer
        pa.field("target", pa.string(), nullable=False),
        # of the prompt's last screenshot, in pixels; null without one
        pa.field("screen_width", pa.int32()),
        pa.field("screen_height", pa.int32()),
    ]
)
_METADATA = b"adaptermill"
VALIDATION, TEST = "validation", "test"


@dataclass(frozen=True)
class Origin:
    """What a file of predictions was made of.

    `split_hash` stands for the held-out rows, `base_hash` for the base's files; `adapter_key` is
    None for the base. `dtype` and `device` are those that computed it.
    """

    split_hash: str
    base_hash: str
    adapter_key: str | None
    generated: bool
    max_new_tokens: int
    dtype: str
    device: str


@dataclass(frozen=True)
class Predictions:
    """One adapter's predictions; `name` is the file's, `rows` has the columns of SCHEMA."""

    name: str
    origin: Origin
    rows: pa.Table


def write(path: str | os.PathLike, rows: pa.Table, origin: Origin) -> None:
    """Writes the predictions whole or not at all."""
    described = json.dumps(asdict(origin), sort_keys=True).encode()
    with replacing(path) as temporary:
        pq.write_table(
            rows.cast(SCHEMA).replace_schema_metadata({_METADATA: described}),
            temporary,
            compression="zstd",
        )


def read(path: str | os.PathLike, side: str = VALIDATION) -> Predictions:
    """The predictions of one side in a file, under the name that the file has."""
    path = Path(path)
    try:
        rows = pq.read_table(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; build it with snakemake {path}") from None
    except pa.ArrowInvalid as error:
        raise UserError(f"{path} is no Parquet file: {error}") from None
    described: dict[str, Any] | None = json.loads((rows.schema.metadata or {}).get(_METADATA, "{}"))
    if not described or not rows.schema.equals(SCHEMA):
        raise UserError(
            f"{path} is no evaluation as scripts/evaluate.py writes it (results/evaluation/"
            "<adapter>.parquet); build it again"
        )
    rows = rows.filter(pc.equal(rows["side"], side)).combine_chunks()
    return Predictions(path.stem, Origin(**described), rows.replace_schema_metadata(None))
