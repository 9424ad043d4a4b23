"""From what was seen of two neighbouring inputs to a lower bound of epsilon, exactly."""

from __future__ import annotations

import math
from typing import NamedTuple

from flint import arb

__all__ = ["Tally", "epsilon_at_least", "epsilon_of", "probability_at_least", "probability_at_most"]

_STEPS = 40


class Tally(NamedTuple):
    """How often an event came in so many independent draws."""

    hits: int
    draws: int


def epsilon_of(right: int, wrong: int, draws: int, delta: float, risk: float) -> float:
    """The least epsilon, at least 0, that goes with so many right and wrong guesses at which of two neighbours
    published, in so many independent draws of one that a fair coin chose; in the rest there was no guess.

    Let A and B be the answers on which one and the other neighbour is guessed. As each has probability 1/2,
    P(right) = (P(A) + P'(B)) / 2 and P(wrong) = (P'(A) + P(B)) / 2, so that P(right) <= exp(epsilon) P(wrong) + delta.
    For a delta of 0, each guess that is made is right with probability at most exp(epsilon) / (1 + exp(epsilon)),
    whatever the others are: one Clopper-Pearson bound instead of two, and both directions at once (Steinke, Nasr,
    Jagielski: Privacy Auditing with One Training Run, 2023; here draws are independent, which is the simple case).

    Args:
        risk: how likely the bound may be above the true one.
    """
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


def probability_at_most(seen: Tally, risk: float) -> float:
    """The upper Clopper-Pearson bound: below the true probability with probability at most `risk`."""
    return 1 - probability_at_least(Tally(seen.draws - seen.hits, seen.draws), risk)


def probability_at_least(seen: Tally, risk: float) -> float:
    """The lower Clopper-Pearson bound: above the true probability with probability at most `risk`."""
    hits, draws = seen
    low, high = 0.0, 1.0
    # P(Binomial(draws, p) >= hits) is the regularised incomplete beta function of p, which rises. What balls cannot
    # tell apart is taken to be above `risk`, so that `low` stays below the root.
    for _ in range(_STEPS if hits else 0):
        middle = (low + high) / 2
        below = arb(middle).beta_lower(arb(hits), arb(draws - hits + 1), regularized=True) < risk
        low, high = (middle, high) if below else (low, middle)
    return low
