"""Intervals hold what they are about as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from private_topk.previews.estimates import Estimate, mean, pooled, share


@pytest.mark.parametrize("draws", [30, 400])
@pytest.mark.parametrize("chance", [0.003, 0.02, 0.1, 0.37, 0.5, 0.9, 0.99])
def test_a_chance_is_in_its_interval(chance: float, draws: int) -> None:
    """By all outcomes of the binomial law. Wilson's interval is below 0.95 in places, hardly below 0.9."""
    held = 0.0
    for hits in range(draws + 1):
        law = math.comb(draws, hits) * chance**hits * (1 - chance) ** (draws - hits)
        interval = share(hits, draws)
        assert 0 <= interval.low <= interval.value <= interval.high <= 1
        held += law * (interval.low <= chance <= interval.high)
    assert held >= (0.91 if draws == 400 else 0.83)


def test_never_and_always_are_not_certain() -> None:
    assert share(0, 400).high > 0.005 and share(400, 400).low < 0.995
    assert mean([1.0] * 400, most=1.0) == Estimate(1.0, 1 - 3 / 400, 1.0)
    assert mean([0.0] * 400, most=200.0).high == pytest.approx(1.5)


def test_a_mean_is_in_its_interval() -> None:
    """1,000 means of 400 skewed numbers: below 925 comes one time in a thousand of a sound interval."""
    rows = np.random.default_rng(5).exponential(3.0, (1000, 400))
    held = sum(mean(row).low <= 3.0 <= mean(row).high for row in rows)
    assert 925 <= held <= 975
    assert mean([2.0, 3.0], most=3.0).high == 3.0


def test_what_is_computed_has_no_width() -> None:
    assert Estimate.known(0.5) == Estimate(0.5, 0.5, 0.5, True)
    assert Estimate.known(0.5).plain() == {"value": 0.5, "low": 0.5, "high": 0.5, "exact": True}


def test_what_rises_is_pooled() -> None:
    assert pooled([5.0, 3.0, 1.0]) == [(5, 1), (3, 1), (1, 1)]
    assert pooled([5.0, 2.0, 4.0, 3.0, 6.0]) == [(5, 1), (3.75, 4)]
    assert pooled([1.0, 2.0, 3.0]) == [(2, 3)] and pooled([]) == []
