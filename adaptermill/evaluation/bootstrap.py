"""Percentile bootstrap over episodes (Efron 1979; whole episodes are drawn, since the steps of one
episode are not independent).

A figure is a ratio of sums, `sum(numerators) / sum(denominators)`, of which every episode has one
summand each. With a row's value and 1 this is the mean over rows; with sums and token counts the
mean over tokens. Two figures over the same episodes are compared on the same resamples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

CONFIDENCE = 0.95
# Resampled counts held at a time: memory stays bounded however many episodes there are.
_BLOCK_COUNTS = 4_000_000


class Bootstrap:
    """Resamples of episodes, drawn from `seed` and the number of episodes alone."""

    def __init__(self, resamples: int, seed: int) -> None:
        self.resamples = resamples
        self.seed = seed
        self._drawn: tuple[int, np.ndarray] | None = None

    def ratios(self, numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
        """float64 [resamples]: the ratio of sums in every resample.

        `numerators` and `denominators` are [episodes]; denominators are positive.
        """
        summands = np.stack([numerators, denominators], axis=1).astype(np.float64)
        sums = np.concatenate([counts @ summands for counts in self._blocks(len(summands))])
        return sums[:, 0] / sums[:, 1]

    def _blocks(self, episodes: int) -> Iterable[np.ndarray]:
        """How often each resample holds each episode, in blocks int64 [some, episodes]."""
        rows = max(1, _BLOCK_COUNTS // episodes)
        if rows < self.resamples:
            return self._draw(episodes, rows)
        if self._drawn is None or self._drawn[0] != episodes:
            self._drawn = episodes, next(iter(self._draw(episodes, rows)))
        return [self._drawn[1]]

    def _draw(self, episodes: int, rows: int) -> Iterator[np.ndarray]:
        generator = np.random.default_rng([self.seed, episodes])
        shares = np.full(episodes, 1.0 / episodes)
        for start in range(0, self.resamples, rows):
            yield generator.multinomial(episodes, shares, size=min(rows, self.resamples - start))


def interval(samples: np.ndarray) -> tuple[float, float]:
    """The central 95 % of the resampled figures."""
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(samples, [tail, 1.0 - tail])
    return float(low), float(high)
