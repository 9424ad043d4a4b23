"""Scores of items in floats, with bounds on their errors, where of a count only bounds may be known.

To look at an item's count takes a pass over all counts. But for most items bounds of the count are enough to tell that
others score more, so that the few which remain are looked at together.

Example: the second largest score is asked for, and without noise the counts 9, 7, between 3 and 5, and between 6 and 8
have been met. 7 is the second largest that is certain, and what is at most 5 is out; the last one has to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from flint import arb
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.noise import COUNT_ERROR
from private_topk.transforms.mechanisms.exact.reals import Real

__all__ = ["Levels", "Met", "Scores"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_UP = 1 + 2.0**-40  # more than all roundings of a product


@dataclass(frozen=True)
class Levels:
    """What is added to what: the score of an item is level(count) + noise(A).

    Args:
        rate, rate_error: what one count adds to a level, and a bound on its relative error.
        level: the exact level of a count.
        noise, noise_error: the noise in floats as a function of A, and a bound on its error when A is off by one part
            in 2**31.
        quantile: the exact noise of an exact A; it falls.
    """

    rate: float
    rate_error: float
    level: Callable[[int], Real]
    noise: Callable[[Floats], Floats]
    noise_error: Callable[[Floats], Floats]
    quantile: Callable[[arb], arb]

    def steps(self, counts: Indices, least: int) -> tuple[Floats, Floats]:
        """The levels of counts less that of `least`, and bounds on their errors.

        Differences from it are exact integers, so counts near it keep their precision however large they are.
        """
        steps: Floats = np.asarray((counts - least) * self.rate, np.float64)
        return steps, np.abs(steps) * (COUNT_ERROR + self.rate_error)


@dataclass(frozen=True, eq=False)
class Met:
    """Which item of which block has which noise, shape (n,) each; its count lies between `leasts` and `counts`."""

    places: Indices
    turns: Indices
    ranks: Indices
    leasts: Indices
    counts: Indices
    noises: Floats
    noise_errors: Floats

    @classmethod
    def joined(cls, parts: Sequence[Met]) -> Met:
        """All of the parts."""
        return cls(*(np.concatenate([getattr(part, its.name) for part in parts]) for its in fields(cls)))

    def at(self, which: Indices) -> Met:
        """Some of them."""
        return Met(*(getattr(self, its.name)[which] for its in fields(self)))

    @property
    def open(self) -> Indices:
        """Those whose count has to be looked at."""
        return np.flatnonzero(self.leasts < self.counts)

    def counted(self, which: Indices, counts: Indices) -> Met:
        """The same with the counts of some."""
        known = self.counts.copy()
        known[which] = counts
        return Met(self.places, self.turns, self.ranks, known, known, self.noises, self.noise_errors)


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of what was met, of the larger count of two; bounds on their errors, and what they are at least."""

    scores: Floats
    errors: Floats
    low: Floats

    @classmethod
    def of(cls, met: Met, levels: Levels, least: int) -> Scores:
        """In units of the levels, of which that of the count `least` is 0."""
        steps, errors = levels.steps(met.counts, least)
        scores = steps + met.noises
        errors = errors + met.noise_errors
        low = scores - errors
        if met.leasts is not met.counts:
            low -= (met.counts - met.leasts) * (levels.rate * _UP)
        return cls(scores, errors, low)
