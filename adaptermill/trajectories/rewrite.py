"""Rows as one adapter fits them (view.py), measured in the base's tokens.

They lie in a folder like that of an ingested source, and have the ids of the rows that they stand
for: whoever is given this folder before the sources reads these rows instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing, write_json
from adaptermill.errors import UserError
from adaptermill.measure import counts
from adaptermill.measurements import MEASURE_SCHEMA
from adaptermill.models.encode import Encoder, TemplatePrefixError
from adaptermill.rows.dataset import Images, shard_paths
from adaptermill.rows.schema import IMAGE_SCHEMA, ROW_SCHEMA, Row, content_hashes, dump, image_parts
from adaptermill.trajectories.view import NothingVisible, View

_SHARD = "messages"


def rewrite(sources: Sequence[Path], view: View, encoder: Encoder, folder: Path) -> dict[str, int]:
    """Writes the rows of the ingested `sources` into `folder`; returns how many, and how many not.

    measures.parquet there (MEASURE_SCHEMA) has a line for every row; one without visible text is
    not written, and its reason is `no_visible_text`. `UserError` when the prompts name a role that
    no message has.
    """
    images = Images([path for source in sources for path in shard_paths(source, "images")])
    measures: list[dict[str, Any]] = []
    roles = set()
    with (
        replacing(folder / "shards" / f"{_SHARD}.parquet") as temporary,
        pq.ParquetWriter(temporary, ROW_SCHEMA, compression="zstd") as writer,
    ):
        for group in _groups(sources):
            made = []
            for values in group:
                roles.add(values["family"])
                values, measure = _rewritten(values, view, encoder, images)
                measures.append(measure)
                if values is not None:
                    made.append(values)
            writer.write_table(pa.Table.from_pylist(made, schema=ROW_SCHEMA))
    _check_roles(view, roles)
    with replacing(folder / "images" / f"{_SHARD}.parquet") as temporary:
        pq.write_table(IMAGE_SCHEMA.empty_table(), temporary)
    with replacing(folder / "measures.parquet") as temporary:
        pq.write_table(pa.Table.from_pylist(measures, schema=MEASURE_SCHEMA), temporary)
    unseen = sum(measure.get("reason") == "no_visible_text" for measure in measures)
    written = {"rows": len(measures) - unseen, "no_visible_text": unseen}
    write_json(folder / "summary.json", {**written, "shards": [_SHARD]})
    return written


def _groups(sources: Sequence[Path]) -> Iterator[list[dict[str, Any]]]:
    for source in sources:
        for path in shard_paths(source, "shards"):
            file = pq.ParquetFile(path)
            for group in range(file.num_row_groups):
                yield file.read_row_group(group).to_pylist()


def _rewritten(
    values: dict[str, Any], view: View, encoder: Encoder, images: Images
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The row's columns under the view (None: nothing visible), and its line of the measures."""
    measure: dict[str, Any] = {"row_id": values["row_id"]}
    row = Row.from_columns(values)
    try:
        messages, target = view.apply(row.record)
    except NothingVisible as error:
        return None, {**measure, "reason": "no_visible_text", "detail": str(error)}
    # A deployment prompt is text alone; a row keeps its images or has none.
    shown = row.images if any(image_parts(messages)) else ()
    values = {
        **values,
        "messages": dump(messages),
        "target": target,
        "images": list(shown),
        **content_hashes(messages, target, shown),
    }
    try:
        made = encoder.tokens(messages, target, [images.size(name) for name in shown])
    except TemplatePrefixError as error:
        return values, {**measure, "reason": "template_prefix", "detail": str(error)}
    return values, measure | counts(made)


def _check_roles(view: View, roles: set[str]) -> None:
    unknown = sorted(set(view.prompts) - roles) if isinstance(view.prompts, dict) else []
    if unknown:
        raise UserError(
            f"trajectories.fit_prompt: no message has the role {', '.join(map(repr, unknown))}; "
            f"there are {', '.join(sorted(roles))}"
        )
