"""The settings that decide what training does, as the spec file holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """Settings of the anchored recipe; `init_from` is an adapter's name, a folder, or None."""

    method: str
    rank: int
    alpha: float
    dropout: float
    lora_targets: str
    learning_rate: float
    batch_rows: int
    beta: float
    ce_on: str
    seed: int
    init_from: str | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Recipe:
        """From a spec's settings; what is not a recipe's (recorded versions) is passed over."""
        return cls(**{name: settings[name] for name in cls.__dataclass_fields__})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
