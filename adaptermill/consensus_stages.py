"""What the pipeline knows of adapters that are trained by consensus."""

from __future__ import annotations

from dataclasses import dataclass

from adaptermill.config import Config
from adaptermill.message_stages import data_arguments
from adaptermill.sources import is_trajectories


@dataclass(frozen=True)
class ConsensusStages:
    """Names of such adapters, and where their messages lie."""

    config: Config

    @property
    def adapters(self) -> list[str]:
        """Those that are trained."""
        recipes = self.config.recipes
        return [name for name in self.config.trained if recipes[name].method == "consensus"]

    @property
    def evaluated(self) -> list[str]:
        """The base, and those of them that are evaluated."""
        return ["base", *(name for name in self.adapters if name in self.config.evaluated)]

    @property
    def data_arguments(self) -> str:
        return data_arguments(s.name for s in self.config.sources if is_trajectories(s))
