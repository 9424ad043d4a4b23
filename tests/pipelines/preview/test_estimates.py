"""Intervals hold what they are about as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from private_topk.pipelines.preview.expected import pooled
from private_topk.pipelines.preview.outlook import Estimate, mean, share
from private_topk.pipelines.preview.words import within


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


def test_observed_shares_of_0_and_1_have_intervals() -> None:
    assert share(0, 400).high > 0.005 and share(400, 400).low < 0.995
    assert mean([1.0] * 400, 1.0) == Estimate(1.0, 1 - 3 / 400, 1.0)
    assert mean([0.0] * 400, 200.0).high == pytest.approx(1.5)


@pytest.mark.parametrize("sure", [0.5, 0.95, 0.998])
def test_a_mean_is_in_its_interval(sure: float) -> None:
    """2,000 means of 400 recalls of ten places each: of a sound interval below 0.93 comes one time in 1e4.

    At 0.998 a normal interval holds the mean 0.9 of the times only, since most draws find everything.
    """
    rows = np.random.default_rng(5).binomial(10, sure, (2000, 400)) / 10
    intervals = [mean(row, 1.0) for row in rows]
    held = np.mean([one.low <= sure <= one.high for one in intervals])
    assert 0.93 <= held <= 0.985
    assert all(0 <= one.low <= one.value <= one.high <= 1 for one in intervals)


def test_few_draws_have_wide_intervals() -> None:
    assert mean([0.4], 1.0) == Estimate(0.4, 0.0, 1.0)
    assert mean([2.0, 3.0], 3.0).high <= 3.0 and mean([0.0, 0.0], 0.0) == Estimate(0.0, 0.0, 0.0)


def test_a_known_value_has_an_interval_of_no_width() -> None:
    assert Estimate.known(0.5) == Estimate(0.5, 0.5, 0.5)
    assert Estimate.known(0.5).plain() == {"value": 0.5, "low": 0.5, "high": 0.5}


def test_rising_values_are_pooled_to_a_falling_sequence() -> None:
    assert pooled([5.0, 3.0, 1.0]) == [(5, 1), (3, 1), (1, 1)]
    assert pooled([5.0, 2.0, 4.0, 3.0, 6.0]) == [(5, 1), (3.75, 4)]
    assert pooled([1.0, 2.0, 3.0]) == [(2, 3)] and pooled([]) == []


@pytest.mark.parametrize(
    ("low", "value", "high", "said"),
    [
        (0.5, 0.52, 0.55, "52.0 ±3.0%"),
        (0.9925, 1.0, 1.0, "over 99.2%"),
        (0.9987, 0.9998, 1.0, "over 99.8%"),
        (0.0, 0.0, 0.0041, "under 0.5%"),
        (0.02, 0.08, 0.25, "under 25.0%"),
        (0.9, 0.98, 1.0, "over 90.0%"),
        (1.0, 1.0, 1.0, "100.0%"),
    ],
)
def test_at_the_ends_an_estimate_is_told_by_the_other_end_of_its_interval(
    low: float, value: float, high: float, said: str
) -> None:
    assert within(Estimate(value, low, high)) == said
