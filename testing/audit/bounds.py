"""From how often an event came on two neighbouring inputs to a lower bound of epsilon, exactly."""

from __future__ import annotations

import math
from typing import NamedTuple

from flint import arb

__all__ = ["Tally", "epsilon_at_least", "probability_at_least", "probability_at_most"]

_STEPS = 40


class Tally(NamedTuple):
    """How often an event came in so many independent draws."""

    hits: int
    draws: int


def epsilon_at_least(often: Tally, seldom: Tally, delta: float, risk: float) -> float:
    """The least epsilon that goes with P(event) <= exp(epsilon) P'(event) + delta, at least 0.

    Args:
        often, seldom: the event on the one input and on its neighbour.
        risk: how likely the bound may be above the true one: half of it for each of the two Clopper-Pearson bounds.
    """
    low = probability_at_least(often, risk / 2) - delta
    return max(math.log(low / probability_at_most(seldom, risk / 2)), 0.0) if low > 0 else 0.0


def probability_at_least(seen: Tally, risk: float) -> float:
    """The lower Clopper-Pearson bound: above the true probability with probability at most `risk`."""
    hits, draws = seen
    if hits == 0:
        return 0.0
    # P(Binomial(draws, p) >= hits) is the regularised incomplete beta function of p, which rises.
    return _solve(arb(hits), arb(draws - hits + 1), risk)[0]


def probability_at_most(seen: Tally, risk: float) -> float:
    """The upper Clopper-Pearson bound: below the true probability with probability at most `risk`."""
    hits, draws = seen
    if hits == draws:
        return 1.0
    return 1 - _solve(arb(draws - hits), arb(hits + 1), risk)[0]


def _solve(a: arb, b: arb, level: float) -> tuple[float, float]:
    """An interval around the p at which the regularised incomplete beta function of a and b is `level`."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        # What balls cannot tell apart is taken to be above, so that the lower end stays below the root.
        below = arb(middle).beta_lower(a, b, regularized=True) < level
        low, high = (middle, high) if below else (low, middle)
    return low, high
