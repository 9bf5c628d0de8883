"""Examples and judge settings made for a test, as the configuration and the readers make them."""

from __future__ import annotations

from typing import Any

from adaptermill.config import load
from adaptermill.judge_specs import judge_settings
from adaptermill.judges.judge import Example, Keep, Verdict
from adaptermill.rows.schema import digest


def example(output: str = "4", query: str = "What is 2 + 2?", **fields: Any) -> Example:
    """An example whose content hash is that of its query and output."""
    messages = fields.pop("messages", [{"role": "user", "content": query}])
    values = {"row_id": f"row {query} {output}", "content_hash": digest(str(messages), output)}
    return Example(messages=messages, output=output, **{**values, **fields})


def settings_of(judge: dict[str, Any], code: str = "code", **sources: Any) -> dict[str, Any]:
    """The settings of the stage of a judge `j` that the adapter `drag` has."""
    config = load(
        {
            "sources": [{"name": "main", "format": "replay", "path": "raw", **sources}],
            "judges": {"j": judge},
            "adapters": {"drag": {"families": ["Drag & gesture"], "judge": "j"}},
        }
    )
    return judge_settings(config, "j", code, lambda name: {"adapter": name})


class Kept(dict):
    """Row id -> verdict, as a judge hands them over."""

    def __call__(self, example: Example, verdict: Verdict) -> None:
        assert example.row_id not in self, "a verdict is kept once"
        self[example.row_id] = verdict

    @property
    def keep(self) -> Keep:
        return self
