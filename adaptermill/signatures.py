"""MinHash signatures of all rows of ingested shards, kept from one build to the next.

    signed = sign_shards(paths, ngram=5, permutations=128, cache=folder, processes=2)
    signed.prompts, signed.answers       # uint32 [rows, permutations]

A shard's name holds the hash of its content, so what was signed once need not be again. Signatures
of a prompt and its answer together are the minimum of the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing
from adaptermill.minhash import Signer

_COLUMNS = ["row_id", "messages", "target"]


@dataclass(frozen=True)
class Signed:
    """Signatures by row: `row_ids` in the order of the lines."""

    row_ids: list[str]
    prompts: np.ndarray
    answers: np.ndarray

    def of(self, row_ids: Sequence[str]) -> Signed:
        """Those of some rows, in their order; KeyError for a row that is not there."""
        lines = pd.Index(self.row_ids).get_indexer(pd.Index(row_ids))
        if (lines < 0).any():
            raise KeyError(row_ids[int(np.argmax(lines < 0))])
        return Signed(list(row_ids), self.prompts[lines], self.answers[lines])

    @property
    def whole(self) -> np.ndarray:
        """Of prompt and answer together."""
        return np.minimum(self.prompts, self.answers)


def texts_of(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The text of each message; pictures have none."""
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            yield content
        else:
            yield "\n".join(part["text"] for part in content if part.get("type") == "text")


def sign_shards(
    paths: Sequence[Path], *, ngram: int, permutations: int, cache: Path | None, processes: int = 1
) -> Signed:
    """Signs every row of the shards; `cache` (a folder, or None) keeps a file per shard.

    The folder must be this code's alone; files of other settings are written anew.
    """
    work = partial(_signed, ngram=ngram, permutations=permutations, cache=cache)
    if processes > 1 and len(paths) > 1:
        with ProcessPoolExecutor(min(processes, len(paths))) as pool:
            tables = list(pool.map(work, paths))
    else:
        tables = [work(path) for path in paths]
    table = pa.concat_tables([_SCHEMA.empty_table(), *tables])
    found = {
        name: np.frombuffer(b"".join(table[name].to_pylist()), np.uint32).reshape(-1, permutations)
        for name in ("prompt", "answer")
    }
    return Signed(table["row_id"].to_pylist(), found["prompt"], found["answer"])


_SCHEMA = pa.schema(
    [("row_id", pa.string()), ("prompt", pa.binary()), ("answer", pa.binary())],
)


def _signed(path: Path, *, ngram: int, permutations: int, cache: Path | None) -> pa.Table:
    # <source>/shards/<shard>.parquet; two sources may hold shards of one name.
    kept = None if cache is None else cache / f"{path.parts[-3]}__{path.name}"
    how = {b"ngram": str(ngram).encode(), b"permutations": str(permutations).encode()}
    if kept is not None and kept.is_file():
        table = pq.read_table(kept)
        if table.schema.metadata == how:
            return table.replace_schema_metadata(None)
    sign = Signer(ngram, permutations)
    columns: dict[str, list] = {name: [] for name in _SCHEMA.names}
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        for line in file.read_row_group(group, columns=_COLUMNS).to_pylist():
            columns["row_id"].append(line["row_id"])
            prompt = sign(texts_of(json.loads(line["messages"])))
            columns["prompt"].append(prompt.tobytes())
            columns["answer"].append(sign([line["target"]]).tobytes())
    table = pa.table(columns, schema=_SCHEMA)
    if kept is not None:
        with replacing(kept) as temporary:
            noted = table.replace_schema_metadata(how)
            pq.write_table(noted, temporary, compression="zstd")
    return table
