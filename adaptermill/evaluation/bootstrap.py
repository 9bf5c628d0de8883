"""Percentile bootstrap over episodes (Efron 1979; whole episodes are drawn, since the steps of one
episode are not independent).

A figure is a ratio of sums, `sum(numerators) / sum(denominators)`, of which every episode has one
summand each. With a row's value and 1 this is the mean over rows; with sums and token counts the
mean over tokens. Two figures over the same episodes are compared on the same resamples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np

CONFIDENCE = 0.95
# Resampled counts held at a time: memory stays bounded however many episodes there are.
_BLOCK_COUNTS = 2_000_000
# Numbers of episodes whose resamples are kept: families and metrics share them.
_KEPT = 16


class Bootstrap:
    """Resamples of episodes, drawn from `seed` and the number of episodes alone."""

    def __init__(self, resamples: int, seed: int) -> None:
        self.resamples = resamples
        self.seed = seed
        self._whole = lru_cache(maxsize=_KEPT)(self._draw_whole)

    def ratios(self, numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
        """float64 [resamples]: the ratio of sums in every resample.

        `numerators` and `denominators` are [episodes]; denominators are positive.
        """
        summands = np.stack([numerators, denominators], axis=1).astype(np.float64)
        sums = np.concatenate([counts @ summands for counts in self._blocks(len(summands))])
        return sums[:, 0] / sums[:, 1]

    def _blocks(self, episodes: int) -> Iterable[np.ndarray]:
        """How often each resample holds each episode, in blocks float64 [some, episodes]."""
        if self.resamples * episodes <= _BLOCK_COUNTS:
            return [self._whole(episodes)]
        return self._draw(episodes, max(1, _BLOCK_COUNTS // episodes))

    def _draw_whole(self, episodes: int) -> np.ndarray:
        return next(self._draw(episodes, self.resamples))

    def _draw(self, episodes: int, rows: int) -> Iterator[np.ndarray]:
        generator = np.random.default_rng([self.seed, episodes])
        shares = np.full(episodes, 1.0 / episodes)
        for start in range(0, self.resamples, rows):
            size = min(rows, self.resamples - start)
            yield generator.multinomial(episodes, shares, size=size).astype(np.float64)


def interval(samples: np.ndarray) -> tuple[float, float]:
    """The central 95 % of the resampled figures."""
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(samples, [tail, 1.0 - tail])
    return float(low), float(high)
