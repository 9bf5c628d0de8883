"""When a run writes its state, and how far an adapter must have moved to be written."""

from __future__ import annotations

from dataclasses import dataclass

# Relative change of W, from the base or the adapter that was begun with.
LEAST_CHANGE = 1e-6


@dataclass
class Saving:
    """When checkpoints are written; nothing here changes a result."""

    every_rows: int = 5000
    every_minutes: float = 10.0
    keep_curve: bool = False
