"""Adapters that are deployed per node: each held-out message is scored under its own node's.

A message whose seat has no node is scored under the base alone, as it would be served.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peft import PeftModel

from adaptermill.rows.nodes import PER_NODE, node_of
from adaptermill.rows.schema import Row


class NodeAdapters:
    """The adapters in `nodes/` of a folder that its `training.json` says is deployed per node."""

    def __init__(self, folder: Path, record: Mapping[str, Any]) -> None:
        self.names = [node["name"] for node in record["nodes"]]
        self.recipe = record["recipe"]
        self.folders = {name: folder / "nodes" / name for name in self.names}

    @classmethod
    def of(cls, folder: Path | None) -> NodeAdapters | None:
        """Those of the folder; None where it holds one adapter for all."""
        path = folder and folder / "training.json"
        if path is None or not path.is_file():
            return None
        record = json.loads(path.read_text(encoding="utf-8"))
        return cls(folder, record) if record.get("deploy") == PER_NODE else None

    def name_for(self, row: Row) -> str | None:
        """The node that the row belongs to; None where there is none."""
        record = row.record
        if "agent" not in record or "rollout" not in record:
            return None
        name = node_of(record["agent"], record["rollout"]["query_id"], self.recipe)
        return name if name in self.folders else None

    @contextmanager
    def switched(self, model: PeftModel, name: str | None) -> Iterator[None]:
        """Inside, that node's adapter is on; with None, none."""
        if name is None:
            with model.disable_adapter():
                yield
        else:
            model.set_adapter(name)
            yield
