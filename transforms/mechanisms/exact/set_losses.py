"""The k-sets of items by their joint loss, as regions that a race can split."""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import isqrt

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.reals import precision, uniform
from private_topk.transforms.mechanisms.exact.staircase import SetsBetween
from private_topk.transforms.mechanisms.exact.subsets import uniform_subset

__all__ = ["LossInterval", "SetLosses"]

_WALK_LANE = 1
_EASY = 20  # segments in units of k**(6/5): some data take a draw 34
_STEP = 9


class SetLosses:
    """How many sets lose at most R: those with j_i <= t_i(R), the number of counts that are at least c_i - R."""

    def __init__(self, histogram: Histogram, k: int) -> None:
        self._histogram, self._k, self._d = histogram, k, histogram.items
        self._top = histogram.top(k)
        self._most = int((self._top - histogram.bottom(k)).max())
        self._numbers: dict[tuple[int, int], arb] = {}
        self._segments = 0

    def everything(self) -> LossInterval:
        """All sets."""
        return LossInterval(self, None, 0, self._most)

    def reach(self, loss: int) -> NDArray[np.int64]:
        """t_i(loss), shape (k,)."""
        return self._histogram.at_least(self._top - loss)

    def number(self, loss: int) -> arb:
        """How many sets lose at most this, as a ball at the working precision."""
        key = (loss, ctx.prec)
        if key not in self._numbers:
            self._numbers[key] = self._counted(loss)
        return self._numbers[key]

    def _counted(self, loss: int) -> arb:
        if loss >= self._most:  # all sets: no need to look at the smallest counts
            return arb.bin_uiui(self._d, self._k)
        sets = SetsBetween(self.reach(loss))
        self._segments += len(sets.segments)
        return sets.number()

    def around(self, loss: int) -> tuple[int, int]:
        """The largest loss of a set up to this one, from 0 on, and the least beyond, this one being below the largest.

        Let h_i = min over j >= i of (t_j(loss) - j + i), the ranks of the last set that loses at most this: all others
        have each of their ranks at or before its own, so that no loss lies between its loss and this one. A set that
        loses more has a rank beyond h: the least of them has one more at the end of a run h_e = h_i + e - i, which
        leaves the rest as it is.
        """
        places = np.arange(self._k)
        last = np.minimum.accumulate((self.reach(loss) - places)[::-1])[::-1] + places - 1
        ends = np.flatnonzero(np.diff(last, append=self._d) > 1)
        counts = self._histogram.counts_at(np.concatenate((last, last[ends] + 1)))
        least = (self._top[ends] - counts[self._k :]).min()
        return int((self._top - counts[: self._k]).max()), int(least)

    def pad(self) -> None:
        """Count sets on made-up counts after an easy draw: how long a draw takes must not tell much of the data."""
        sets = SetsBetween(_STEP * np.arange(1, self._k + 1))
        with precision(96):
            for _ in range(math.ceil(_EASY * self._k**0.2 - self._segments / self._k)):
                sets.number()


@dataclass(frozen=True)
class LossInterval:
    """The sets that lose least_loss .. most_loss, both the loss of some set; `below` is the next smaller, if any."""

    losses: SetLosses
    below: int | None
    least_loss: int
    most_loss: int

    def size(self) -> arb:
        """The number of its sets, which is at least 1 however wide the ball of the difference is."""
        number = self.losses.number(self.most_loss)
        return number if self.below is None else (number - self.losses.number(self.below)).max(arb(1))

    def split(self) -> tuple[LossInterval, LossInterval] | None:
        """Two parts, of smaller and of larger loss, cut in the middle of the logarithms."""
        if self.least_loss == self.most_loss:
            return None
        middle = isqrt(max(1, self.least_loss) * self.most_loss)
        cut, beyond = self.losses.around(min(middle, self.most_loss - 1))
        return (
            LossInterval(self.losses, self.below, self.least_loss, cut),
            LossInterval(self.losses, cut, beyond, self.most_loss),
        )

    def draw_ranks(self, draw: Draw) -> NDArray[np.int64]:
        """A uniform set of the interval: its ranks, from 0."""
        inner = None if self.below is None else self.losses.reach(self.below)
        sets = SetsBetween(self.losses.reach(self.most_loss), inner)
        numbers = [uniform(draw, _WALK_LANE, i) for i in range(len(sets.segments))]
        ranks, start = [], 0
        for segment, m in zip(sets.segments, sets.members(numbers), strict=True):
            ranks += [start + i for i in uniform_subset(draw, segment.size, m)]
            start += segment.size
        return np.array(ranks)
