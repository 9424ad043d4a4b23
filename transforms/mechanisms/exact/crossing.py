"""The first of a row of noisy levels that crosses a noisy threshold: sparse vector tests, decided exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import (
    COUNT_ERROR,
    NOISE_ERROR,
    float_rate,
    noise_real,
    noisy_score,
    noisy_top,
    standard_noise,
)
from private_topk.transforms.mechanisms.exact.reals import Real, ball, greater, precision

Indices = NDArray[np.int64]

__all__ = ["QUERY_LANE", "THRESHOLD_LANE", "above_bottom", "first_crossing", "log_threshold"]

QUERY_LANE, THRESHOLD_LANE = 2**32 - 2, 2**32 - 3
"""Lanes that no selection reaches, which counts its own from 0."""


def log_threshold(odds: Fraction, noise: str, draw: Draw) -> Real:
    """ln(odds) + standard noise: the level to beat, in units of the noise."""
    disturbance = noise_real(draw, THRESHOLD_LANE, 0, noise)
    return lambda: ball(odds).log() + disturbance()


def first_crossing(
    gaps: Indices, scale: Fraction, threshold: Real, noise: str, draw: Draw, *, addresses: Indices, lane: int, up: bool
) -> int:
    """The first t whose level gaps[t] / scale + noise lies above the threshold (`up`) or below it (not `up`).

    Args:
        gaps: shape (n,), int64.
        scale: of the noise, in counts.
        threshold: in units of the noise.
        noise, addresses, lane: level t has the noise `noise_real(draw, lane, addresses[t], noise)`; addresses (n,).
        up: which side ends the walk.

    Returns:
        t, or n where no level crosses. Cost O(max(addresses)); ball arithmetic only where floats leave it open.
    """
    steps = gaps * float_rate(1 / scale)
    levels = steps + standard_noise(int(addresses.max(initial=0)) + 1, noise, draw, lane)[addresses]
    errors = np.abs(steps) * COUNT_ERROR + 2 * NOISE_ERROR  # the second one for the bar's own rounding
    with precision(96):
        bar = threshold()
    above, below = levels - errors > float(bar.upper()), levels + errors < float(bar.lower())
    certain, open_ones = (above, ~(above | below)) if up else (below, ~(above | below))
    for t in np.flatnonzero(certain | open_ones).tolist():
        exact = noisy_score(int(gaps[t]), scale, noise_real(draw, lane, int(addresses[t]), noise))
        if certain[t] or greater(exact, threshold) == up:
            return t
    return len(gaps)


def above_bottom(top: Indices, moves: int, scale: Fraction, noise: str, odds: Fraction, k: int, draw: Draw) -> Indices:
    """The ranks whose noisy counts are largest and above that of bottom, h_(kbar+1) + moves + scale ln(odds).

    Args:
        top: the kbar + 1 largest counts, decreasing.
        moves: how far differences of counts move between neighbours.
        scale, noise: every item and bottom get this noise, bottom from `THRESHOLD_LANE`.
        odds: how many to one bottom beats an item of count h_(kbar+1) + moves, about.
        k: at most so many ranks.

    Returns:
        Ranks in decreasing order of noisy count, shape (at most k,).
    """
    ranks = noisy_top(top[:-1], scale, noise, k, draw)
    gaps, bottom = top[ranks] - top[-1] - moves, log_threshold(odds, noise, draw)
    return ranks[: first_crossing(gaps, scale, bottom, noise, draw, addresses=ranks, lane=0, up=False)]
