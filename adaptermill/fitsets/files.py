"""The files of a fit set, each whole or not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing
from adaptermill.fitsets.composition import DROPPED_SCHEMA, FITSET_SCHEMA
from adaptermill.fitsets.plan import Line, to_table
from adaptermill.fitsets.table import write_composition


def write_fitset(
    folder: Path,
    fitset: pd.DataFrame,
    dropped: pd.DataFrame,
    plan: Sequence[Line] | None,
    made: Mapping[str, Any],
) -> None:
    """Writes fitset.parquet, dropped.parquet, plan.parquet and the composition (`made`).

    Without a plan (None) there is no plan.parquet.
    """
    write_table(fitset, FITSET_SCHEMA, folder / "fitset.parquet")
    write_table(dropped, DROPPED_SCHEMA, folder / "dropped.parquet")
    if plan is not None:
        with replacing(folder / "plan.parquet") as temporary:
            pq.write_table(to_table(plan), temporary, compression="zstd")
    write_composition(folder, made)


def write_table(frame: pd.DataFrame, schema: pa.Schema, path: Path) -> None:
    """Writes the columns of the schema, and no trace of pandas."""
    table = pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False)
    with replacing(path) as temporary:
        pq.write_table(table.replace_schema_metadata(None), temporary, compression="zstd")
