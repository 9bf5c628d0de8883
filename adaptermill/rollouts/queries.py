"""Queries to roll out on: JSONL, Parquet, or a folder that `datasets` saved.

    queries, left_out = read_queries(Path("queries.jsonl"))

A query has `query_id` (text or whole number, once), `query`, `gold` (text; numbers are taken as
their text; null or absent for safety) and `answer_type`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.errors import UserError
from adaptermill.rows.readers.trajectories import ANSWER_TYPES
from adaptermill.trajectories.queries import outside_windows

_NEEDS_GOLD = frozenset(ANSWER_TYPES) - {"safety"}


@dataclass(frozen=True)
class Query:
    query_id: str
    query: str
    gold: str | None
    answer_type: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_queries(path: Path, split: str | None = None) -> list[Query]:
    """All queries of a file or folder, in its order; `UserError` naming file and line."""
    found: dict[str, Query] = {}
    for where, line in _lines(path, split):
        query = _query(where, line)
        if query.query_id in found:
            raise UserError(
                f"{where}: query_id {query.query_id!r} is there already; ids are unique, since "
                "windows and seeds are made of them"
            )
        found[query.query_id] = query
    if not found:
        raise UserError(f"{path} holds no queries")
    return list(found.values())


def inside_window(
    queries: Iterable[Query], windows: Mapping[str, Any], window: str
) -> tuple[list[Query], dict[str, str]]:
    """The queries of one window (`train`, `heldout`, `evaluation`), and why others are not in it.

    `windows` is as in trajectories/queries.py; `n` belongs to the window that is asked for.
    """
    listed = list(queries)
    if window != "train":
        if windows.get(window) is None:
            raise UserError(f"the window {window!r} has no interval")
        others = dict.fromkeys(("heldout", "evaluation"))
        windows = {**windows, **others, "train": windows[window]}
    out = outside_windows([query.query_id for query in listed], windows)
    return [query for query in listed if query.query_id not in out], out


def _query(where: str, line: Any) -> Query:
    if not isinstance(line, Mapping):
        raise UserError(f"{where}: not an object with query_id, query, gold, answer_type")
    for name in ("query_id", "query", "answer_type"):
        if line.get(name) is None:
            raise UserError(
                f"{where}: there is no {name!r} (it has {', '.join(line) or 'nothing'})"
            )
    query_id, gold, kind = line["query_id"], line.get("gold"), line["answer_type"]
    if isinstance(query_id, bool) or not isinstance(query_id, (str, int)) or query_id == "":
        raise UserError(f"{where}: query_id is {query_id!r}, not a text or a whole number")
    if not isinstance(line["query"], str) or not line["query"].strip():
        raise UserError(f"{where}: query is no text")
    if kind not in ANSWER_TYPES:
        raise UserError(f"{where}: answer_type is {kind!r}, not one of {', '.join(ANSWER_TYPES)}")
    if isinstance(gold, (int, float)) and not isinstance(gold, bool):
        gold = str(gold)
    if gold is not None and not isinstance(gold, str):
        raise UserError(f"{where}: gold is {gold!r}, not a text")
    if kind in _NEEDS_GOLD and (gold is None or not gold.strip()):
        raise UserError(f"{where}: answer_type {kind} needs a gold answer, and there is none")
    return Query(str(query_id), line["query"], gold, kind)


def _lines(path: Path, split: str | None) -> Iterator[tuple[str, Any]]:
    if path.is_dir():
        yield from _dataset(path, split)
    elif not path.is_file():
        raise UserError(f"there are no queries at {path}")
    elif path.suffix == ".parquet":
        yield from _rows(path, pq.ParquetFile(path).iter_batches())
    elif path.suffix in (".jsonl", ".json"):
        yield from _jsonl(path)
    else:
        raise UserError(
            f"{path}: queries are a .jsonl or .parquet file, or a folder that `datasets` saved"
        )


def _jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    with open(path, encoding="utf-8-sig") as file:
        try:
            for number, text in enumerate(file, 1):
                if not text.strip():
                    continue
                try:
                    yield f"{path}:{number}", json.loads(text)
                except ValueError as error:
                    raise UserError(f"{path}:{number}: no JSON: {error}") from None
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is no UTF-8: {error}") from None


def _dataset(path: Path, split: str | None) -> Iterator[tuple[str, Any]]:
    """A `Dataset.save_to_disk` folder: Arrow streams that `state.json` lists."""
    listing = path / "dataset_dict.json"
    if listing.is_file():
        splits = json.loads(listing.read_text(encoding="utf-8"))["splits"]
        if split is None and len(splits) == 1:
            split = splits[0]
        if split not in splits:
            raise UserError(f"{path} has the splits {', '.join(splits)}; choose one by --split")
        path = path / split
    state = path / "state.json"
    if not state.is_file():
        raise UserError(f"{path} is no folder that `datasets` saved: it has no state.json")
    for entry in json.loads(state.read_text(encoding="utf-8"))["_data_files"]:
        file = path / entry["filename"]
        with pa.memory_map(str(file)) as source:
            yield from _rows(file, pa.ipc.open_stream(source))


def _rows(path: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, Any]]:
    number = 0
    for batch in batches:
        for row in batch.to_pylist():
            number += 1
            yield f"{path}, row {number}", row
