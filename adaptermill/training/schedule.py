"""The learning-rate schedule: a short linear warm-up times a cosine to zero."""

from __future__ import annotations

import math

WARM_UP_SHARE = 0.03


def multiplier(step: int, steps: int) -> float:
    """What the learning rate is multiplied by at optimizer step `step` (from 0) of `steps`."""
    warm_up = max(1, math.floor(WARM_UP_SHARE * steps))
    rising = min(1.0, (step + 1) / warm_up)
    return rising * 0.5 * (1.0 + math.cos(math.pi * min(1.0, step / steps)))
