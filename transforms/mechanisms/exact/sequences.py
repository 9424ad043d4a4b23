"""The sequences of k distinct items by their joint loss, as a staircase of thresholds."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.count_lookup import CountLookup
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.scaled import Magnitudes
from private_topk.transforms.mechanisms.exact.thresholds import AnswersByLoss

__all__ = ["Sequences"]

_AT_ONCE = 1 << 20  # look-ups held in memory
_FACTORS = 256
_MOST_ASKED = 300


class Sequences(AnswersByLoss):
    """Sequences (s_1 .. s_k) of ranks under the loss max_i of (b - a) c_i - a c_{s_i}, for a skew a/b in [1/2, 1].

    The item at place i of a sequence of loss at most R is one of the t_i(R) with a c_j >= (b - a) c_i - R. As c_i falls
    these sets grow, each holding the one before, so N(R) is the product of t_i(R) - (i - 1).

    With `settled` the loss is truncated there: every sequence has loss at most `settled`.
    """

    def __init__(
        self, histogram: Histogram, k: int, skew: Fraction, rate: Fraction, settled: int | None = None
    ) -> None:
        self.rate, self.settled = rate, settled
        # Counts far apart need about 60, counts next to each other up to 650; for a few items that takes no time.
        self.asked = min(k // 4, _MOST_ASKED)
        self._histogram, self._d, self._k = histogram, histogram.items, k
        self._lookup: CountLookup | None = None
        self._a, self._rest = skew.numerator, skew.denominator - skew.numerator
        # Beyond 64 bits the products of counts with a and b - a need Python's integers.
        kind = np.int64 if self._a * histogram.largest < 2**63 else object
        self._top = histogram.top(k).astype(kind)
        self.first = (self._rest - self._a) * int(self._top[-1])
        self._last = self._rest * int(self._top[0]) - self._a * histogram.smallest
        self.most = math.perm(self._d, k)

    def upper(self, thresholds: NDArray[Any]) -> Magnitudes:
        """N rounded up, by products of doubles in a fixed order: IEEE 754 defines each of them to the last bit."""
        rows = max(1, _AT_ONCE // self._k)
        if len(thresholds) <= rows:
            return self._upper(thresholds)
        parts = (thresholds[start : start + rows] for start in range(0, len(thresholds), rows))
        return Magnitudes.joined(*(self._upper(part) for part in parts))

    def _upper(self, thresholds: NDArray[Any]) -> Magnitudes:
        factors = np.subtract(self._reach(thresholds), self._taken[:, None], dtype=np.float64)
        exponents = np.zeros(len(thresholds), np.int64)
        size = self._d.bit_length()  # every product so far is below 2**size, and at least 2**-size
        while len(factors) > 1:
            if 2 * size > 1000:
                factors, shifts = np.frexp(factors)
                exponents += shifts.sum(axis=0)
                size = 1
            half, odd = divmod(len(factors), 2)
            np.multiply(factors[:half], factors[half : 2 * half], out=factors[:half])
            if odd:
                factors[half] = factors[-1]
            factors = factors[: half + odd]
            size *= 2
        # k products err by less than 2 k units in the last of 53 places.
        return Magnitudes.of(factors[0] * (1 + 4 * self._k * 2.0**-53), exponents)

    def exact(self, threshold: int) -> arb:
        """The ball of N(threshold) at the working precision."""
        factors = (self._reach(_one(threshold))[:, 0] - self._taken).tolist()
        # One product of k integers would take time in proportion to k squared.
        balls = (arb(math.prod(factors[start : start + _FACTORS])) for start in range(0, self._k, _FACTORS))
        return math.prod(balls, start=arb(1))

    def sample(self, threshold: int, draw: Draw) -> NDArray[np.int64]:
        """Ranks of a uniform sequence of loss at most the threshold: a Fisher-Yates shuffle whose pool grows."""
        partners = self._taken + draw.below_each(self._reach(_one(threshold))[:, 0] - self._taken)
        if len(np.unique(partners)) == self._k:
            return partners  # nobody trades places twice
        moved: dict[int, int] = {}
        ranks = []
        for place, partner in enumerate(partners.tolist()):
            ranks.append(moved.get(partner, partner))
            moved[partner] = moved.get(place, place)
        return np.array(ranks)

    def loss(self, ranks: NDArray[np.int64]) -> int:
        """The loss of a sequence, not truncated."""
        counts = self._histogram.counts_at(ranks).astype(self._top.dtype)
        return int((self._rest * self._top - self._a * counts).max())

    @cached_property
    def _taken(self) -> NDArray[np.int64]:
        return np.arange(self._k)

    @cached_property
    def _own(self) -> NDArray[Any]:
        """What the largest counts add to a loss, shape (k, 1)."""
        return (self._rest * self._top)[:, None]

    def _reach(self, thresholds: NDArray[Any]) -> NDArray[np.int64]:
        """t_i(R) for each place i and threshold R, shape (k, thresholds)."""
        if self._top.dtype == object:
            thresholds = thresholds.astype(object)
        least = self._own - np.minimum(thresholds, self._last).astype(self._top.dtype)
        if self._a > 1:
            least = -(-least // self._a)
        least = least.astype(np.int64, copy=False)
        reach = self._looked_up(int(least[-1].min())).at_least(least)
        if self.settled is not None:
            reach[:, (thresholds >= self.settled).astype(np.bool_)] = self._d
        return reach

    def _looked_up(self, least: int) -> CountLookup:
        """The counts down to `least`: the first thresholds asked for reach as far as most that follow."""
        least = max(0, least)
        if self._lookup is None or least < self._lookup.least:
            self._lookup = CountLookup(self._histogram, least)
        return self._lookup


def _one(threshold: int) -> NDArray[Any]:
    return np.array([threshold], np.int64 if abs(threshold) < 2**63 else object)
