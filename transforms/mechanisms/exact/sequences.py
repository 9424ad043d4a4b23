"""Sequences of ranks by their loss: how many lose at most R, and a uniform one of those that lose just R.

Example: two of the counts 5, 3, 3, 0 at skew 1/2, where a sequence loses the largest c_i - c_{s_i}. Within 1 of the
largest count lies one item, within 1 of the second largest lie three: reach 1 and 3. So 1 - 0 times 3 - 1 = 2 sequences
lose at most 1. Within 2 they are 3 and 3, which makes 3 * 2 = 6, of which 4 lose just 2.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram, Indices
from private_topk.transforms.mechanisms.exact.reals import greater, precision, uniform

_LEAVING_LANE = 1
_FACTORS = 256
_PRECISION = 96
_PADDED = 16, 2
_STEP = 9


class SequenceLosses:
    """The loss max over i of (b - a) c_i - a c_{s_i} of a sequence of ranks s_1 .. s_k, for a skew a/b in [1/2, 1],
    less the least loss of all.

    Args:
        cut_off: the loss from which on all sequences count as losing so much.
    """

    def __init__(self, histogram: Histogram, k: int, skew: Fraction, cut_off: int | None = None) -> None:
        self._histogram, self._k, self._d, self._cut_off = histogram, k, histogram.items, cut_off
        self._a, rest = skew.numerator, skew.denominator - skew.numerator
        # Beyond 64 bits the products of counts with a and b - a need Python's integers.
        kind = np.int64 if self._a * histogram.largest < 2**63 else object
        top = histogram.top(k).astype(kind)
        # What the largest counts add to a loss, less the least loss: that of the k largest in their order.
        self._own = rest * top + (self._a - rest) * top[-1]
        most = int(self._own[0]) - self._a * histogram.smallest
        self.most = most if cut_off is None else min(most, cut_off)
        self._places = np.arange(k)
        self._numbers: dict[tuple[int, int], arb] = {}
        self._padded = 0

    def reach(self, loss: int) -> Indices:
        """How many items lose at most this at each place, shape (k,). They rise: an item within reach of one place is
        within that of the next.
        """
        if loss >= self.most:  # no need to look at the smallest counts
            return np.full(self._k, self._d)
        least = self._own - loss
        if self._a > 1:
            least = -(-least // self._a)
        return self._histogram.at_least(least.astype(np.int64, copy=False))

    def number(self, loss: int) -> arb:
        """How many sequences lose at most this, as a ball at the working precision: the place i may hold any of its
        reach but for the i - 1 items before it.
        """
        key = (loss, ctx.prec)
        if key not in self._numbers:
            self._numbers[key] = _product(self.reach(loss) - self._places)
        return self._numbers[key]

    def around(self, loss: int) -> tuple[int, int]:
        """The largest loss of a sequence up to this one, from 0 on, and the least beyond, this one being below the
        largest.

        Put the last item within reach at a place: the others can be filled, as a reach is at least its place. So the
        worst of these k items says what the worst sequence loses. One that loses more has an item beyond the reach of
        some place; the best has the next one there, and keeps to the reach elsewhere.
        """
        reach = self.reach(loss)
        inside = reach < self._d
        counts = self._histogram.counts_at(np.concatenate((reach - 1, reach[inside]))).astype(self._own.dtype)
        largest = int((self._own - self._a * counts[: self._k]).max())
        least = int((self._own[inside] - self._a * counts[self._k :]).min())
        return largest, least if self._cut_off is None else min(least, self._cut_off)

    def draw_between(self, below: int | None, most: int, draw: Draw) -> Indices:
        """A uniform sequence among those that lose at most `most` and, unless it is None, more than `below`.

        In n_o = prod (t_j - j) sequences all places keep to the outer reach t, j counted from 0; in prod (u_j - j) to
        the inner reach u <= t. The first place to leave the inner reach is i or an earlier one in all but
        prod over j <= i of (u_j - j) times prod over j > i of (t_j - j) sequences of the n_o: so i is found by
        bisection, for one uniform number. Then a Fisher-Yates shuffle, whose pool grows from place to place, draws the
        items: before i within the inner reach, at i beyond it, where nothing was taken yet, and then within the outer.
        """
        pools, first = self.reach(most), self._places
        if below is not None:
            inner = self.reach(below)
            i = self._leaving(inner, pools, draw)
            pools, first = np.where(self._places < i, inner, pools), first.copy()
            first[i] = inner[i]
        partners = first + draw.below_each(pools - first)
        if len(np.unique(partners)) == self._k:
            return partners  # nobody trades places twice
        moved: dict[int, int] = {}
        ranks = []
        for place, partner in enumerate(partners.tolist()):
            ranks.append(moved.get(partner, partner))
            moved[partner] = moved.get(place, place)
        return np.array(ranks)

    def _leaving(self, inner: Indices, outer: Indices, draw: Draw) -> int:
        """The first place whose item is beyond the inner reach."""
        within, beyond = inner - self._places, outer - self._places
        ticket = uniform(draw, _LEAVING_LANE, 0)
        first, last = int(np.argmax(outer > inner)), self._k - 1 - int(np.argmax((outer > inner)[::-1]))
        while first < last:
            middle = (first + last) // 2
            keeping = np.concatenate((within[: middle + 1], beyond[middle + 1 :]))
            if greater(
                lambda: _product(beyond) - _product(keeping),  # noqa: B023 - called at once
                lambda: ticket() * (_product(beyond) - _product(within)),
            ):
                last = middle
            else:
                first = middle + 1
        return first

    def pad(self) -> None:
        """Count sequences of made-up counts after an easy draw, up to three fifths of the most that was seen: how long
        a draw takes must not tell much of the data. A release draws once; a further draw is not padded again.
        """
        missing = _PADDED[0] + _PADDED[1] * math.isqrt(self._k) - len(self._numbers) - self._padded
        if missing <= 0:
            return
        size = _STEP * (self._k + 2)
        made_up = SequenceLosses(Histogram(np.arange(size)[::-1], np.ones(size, np.int64)), self._k, Fraction(1, 2))
        with precision(_PRECISION):
            for loss in range(missing):
                made_up.around(loss)
                made_up.number(loss)
        self._padded += missing


def _product(factors: NDArray[Any]) -> arb:
    """As a ball at the working precision: one product of k integers would take time in proportion to k squared."""
    listed = factors.tolist()
    balls = (arb(math.prod(listed[start : start + _FACTORS])) for start in range(0, len(listed), _FACTORS))
    return math.prod(balls, start=arb(1))
