"""Protects the intervals: right by SciPy and by a plain loop, seeded, and bounded in memory."""

import numpy as np
import pytest

from adaptermill.evaluation import bootstrap
from adaptermill.evaluation.bootstrap import Bootstrap, interval

SUMS = np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0])
SIZES = np.array([2.0, 1.0, 3.0, 1.0, 4.0, 2.0, 3.0])


def test_agrees_with_a_loop_that_draws_whole_episodes():
    generator = np.random.default_rng(5)
    looped = []
    for _ in range(20_000):
        drawn = generator.integers(0, len(SUMS), len(SUMS))
        looped.append(SUMS[drawn].sum() / SIZES[drawn].sum())
    low, high = interval(Bootstrap(20_000, 0).ratios(SUMS, SIZES))
    expected = np.quantile(looped, [0.025, 0.975])
    assert np.allclose([low, high], expected, atol=0.03)


def test_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    found = stats.bootstrap(
        (SUMS, SIZES),
        lambda sums, sizes, axis: sums.sum(axis) / sizes.sum(axis),
        paired=True,
        vectorized=True,
        n_resamples=20_000,
        method="percentile",
        random_state=1,
    ).confidence_interval
    assert np.allclose(
        interval(Bootstrap(20_000, 0).ratios(SUMS, SIZES)), [found.low, found.high], atol=0.03
    )


def test_rows_weigh_equally_and_not_episodes():
    # One long episode of zeros and a short one of ones.
    ratios = Bootstrap(50, 0).ratios(np.array([0.0, 1.0]), np.array([9.0, 1.0]))
    assert set(np.round(ratios, 6)) <= {0.0, 0.1, 1.0}


def test_same_seed_same_resamples_whatever_was_asked_before():
    fresh = Bootstrap(500, 3).ratios(SUMS, SIZES)
    used = Bootstrap(500, 3)
    used.ratios(SUMS[:4], SIZES[:4])
    assert np.array_equal(used.ratios(SUMS, SIZES), fresh)
    assert not np.array_equal(Bootstrap(500, 4).ratios(SUMS, SIZES), fresh)


def test_blocks_change_nothing(monkeypatch):
    whole = Bootstrap(100, 0).ratios(SUMS, SIZES)
    monkeypatch.setattr(bootstrap, "_BLOCK_COUNTS", 7 * 13)
    assert np.allclose(Bootstrap(100, 0).ratios(SUMS, SIZES), whole, rtol=1e-14)


def test_a_constant_has_an_interval_of_no_width():
    assert interval(Bootstrap(200, 0).ratios(2 * SIZES, SIZES)) == (2.0, 2.0)
