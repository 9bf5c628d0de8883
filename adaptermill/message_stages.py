"""What the pipeline knows of adapters that are made of a multi-agent system's messages.

Rows of browser agents and messages of agents never meet in one fit set: each adapter is of one
kind, and so are its sources.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from adaptermill.config import Config
from adaptermill.rows.nodes import SETTINGS as NODE_SETTINGS

# What only rows of browser agents have; the configuration refuses it beside `trajectories`.
NOT_FOR_MESSAGES = {
    *("families", "anchor_families", "exclude_variants", "drop_done", "dedup", "judge_threshold"),
}


def data_arguments(sources: Iterable[str]) -> str:
    """Where ingested sources lie, as the scripts are told."""
    return " ".join(f"--data results/ingest/{source}" for source in sources)


@dataclass(frozen=True)
class MessageStages:
    """Scripts, folders and settings of such adapters, by the adapter's name."""

    config: Config

    def makes(self, name: str) -> bool:
        """Whether the adapter is made of messages."""
        return self.config.recipes[name].trajectories is not None

    def has_view(self, name: str) -> bool:
        """Whether it fits messages otherwise than they were collected."""
        making = self.config.recipes[name].trajectories
        return making is not None and bool(making.fit_prompt or making.target_span == "visible")

    def fitset_script(self, name: str) -> str:
        return "message_fitset" if self.makes(name) else "fitset"

    def fitset_arguments(self, name: str) -> str:
        """What making the fit set reads beside the row index."""
        if not self.makes(name):
            return ""
        view = f" --view {self.view_folder(name)}" if self.has_view(name) else ""
        return self.source_arguments(name) + view

    def source_arguments(self, name: str) -> str:
        return data_arguments(self.config.sources_of(name))

    def source_summaries(self, name: str) -> list[str]:
        return [f"results/ingest/{source}/summary.json" for source in self.config.sources_of(name)]

    def view_folder(self, name: str) -> str:
        return f"results/fitsets/{name}/messages"

    def view_settings(self, name: str) -> dict[str, Any]:
        making = self.config.recipes[name].trajectories
        assert making is not None
        settings = making.model_dump(include={"fit_prompt", "target_span"})
        return {**settings, "sources": self.config.sources_of(name)}

    def fitset_settings(self, name: str, unused: set[str]) -> dict[str, Any]:
        """Settings of the fit set, without those of the recipe that are `unused` by any."""
        recipe = self.config.recipes[name].model_dump(exclude=unused | NOT_FOR_MESSAGES)
        settings = {
            "adapter": name,
            "recipe": {**recipe, "sources": self.config.sources_of(name)},
            "max_tokens": self.config.base.max_tokens,
            "anchor_families": self.config.anchor_families(name),
        }
        if self.config.recipes[name].method == "consensus":
            settings["nodes"] = self.config.recipes[name].model_dump(include=set(NODE_SETTINGS))
        return settings
