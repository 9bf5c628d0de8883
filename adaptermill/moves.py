"""Episodes that changed sides between two builds with the same settings.

A side is a function of the episodes alone, so a build remembers the sides it gave only to say what
moved: where near-duplicates join two groups, or an episode's column has a new value, an old episode
can change sides, and nobody must learn that from a table that looks better than it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing

_COLUMNS = ["source", "task_id", "side", "group"]
_SETTINGS = b"settings"
SHOWN = 20


def remember(path: Path, episodes: pd.DataFrame, settings: str) -> None:
    """Keeps every episode's side and group, and the settings (a text) that gave them."""
    table = pa.Table.from_pandas(episodes[_COLUMNS], preserve_index=False)
    with replacing(path) as temporary:
        pq.write_table(table.replace_schema_metadata({_SETTINGS: settings}), temporary)


def moves(path: Path, episodes: pd.DataFrame, settings: str) -> list[dict[str, Any]]:
    """Episodes with another side than remembered; none where the settings were others."""
    if not path.is_file():
        return []
    table = pq.read_table(path)
    if (table.schema.metadata or {}).get(_SETTINGS) != settings.encode():
        return []
    both = table.to_pandas().merge(
        episodes[_COLUMNS], on=["source", "task_id"], suffixes=("_before", "")
    )
    moved = both[both["side_before"] != both["side"]].sort_values(["source", "task_id"])
    return [
        {
            "episode": f"{line.source}/{line.task_id}",
            "from": line.side_before,
            "to": line.side,
            "group_before": line.group_before,
            "group": line.group,
        }
        for line in moved.itertuples(index=False)
    ]


def readable(moved: list[dict[str, Any]]) -> str:
    """What a person is told; empty for no move."""
    if not moved:
        return ""
    lines = [
        f"{len(moved)} old episodes changed sides since the last build (new episodes joined their "
        "groups, or their columns say something else):"
    ]
    for move in moved[:SHOWN]:
        lines.append(
            f"  {move['episode']}: {move['from']} -> {move['to']}"
            f" (group {move['group_before']} -> {move['group']})"
        )
    if len(moved) > SHOWN:
        lines.append(f"  and {len(moved) - SHOWN} more")
    return "\n".join(lines)
