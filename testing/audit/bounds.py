"""From what was seen of two neighbouring inputs to a lower bound of epsilon, exactly."""

from __future__ import annotations

import math
from typing import NamedTuple

from flint import arb

__all__ = ["Guesses", "Tally", "epsilon_at_least", "epsilon_of", "probability_at_least", "probability_at_most"]

_STEPS = 40


class Tally(NamedTuple):
    """How often an event came in so many independent draws."""

    hits: int
    draws: int


class Guesses(NamedTuple):
    """How often it was guessed rightly and wrongly which of two neighbours published, in so many independent draws of
    one that a fair coin chose; in the rest there was no guess.
    """

    right: int
    wrong: int
    draws: int


def epsilon_of(guesses: Guesses, delta: float, risk: float) -> float:
    """The least epsilon that goes with such guesses, at least 0.

    Let A and B be the answers on which one and the other neighbour is guessed. As each has probability 1/2,
    P(right) = (P(A) + P'(B)) / 2 and P(wrong) = (P'(A) + P(B)) / 2, so that P(right) <= exp(epsilon) P(wrong) + delta.
    For a delta of 0, each guess that is made is right with probability at most exp(epsilon) / (1 + exp(epsilon)),
    whatever the others are: one Clopper-Pearson bound instead of two, and both directions at once (Steinke, Nasr,
    Jagielski: Privacy Auditing with One Training Run, 2023; here draws are independent, which is the simple case).

    Args:
        risk: how likely the bound may be above the true one.
    """
    right, wrong, draws = guesses
    if delta:
        return epsilon_at_least(Tally(right, draws), Tally(wrong, draws), delta, risk)
    low = probability_at_least(Tally(right, right + wrong), risk)
    return max(math.log(low / (1 - low)), 0.0) if low > 0 else 0.0


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
