"""The k-sets of items by their canonical loss, as regions that a race can split."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, ctx, fmpz
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.subsets import uniform_subset

__all__ = ["Classes", "Rectangle", "TopK"]


class TopK:
    """The one set of the ranks 1..k. Losses are counted from its own."""

    least_loss = 0

    def __init__(self, k: int) -> None:
        self._k = k

    def size(self) -> arb:
        return arb(1)

    def split(self) -> None:
        return None

    def draw_ranks(self, draw: Draw) -> NDArray[np.int64]:
        """Its ranks, from 0."""
        return np.arange(self._k)


class Classes:
    """The sets other than the top k, by (h, t): they hold the ranks 1..h, not h + 1, and their last rank is t.

    A set loses `head[h] + tail[t]` more than the top k does, in units of 1/b for gamma = a/b:
    `head[h] = (b - a) (c_{h+1} - c_k)` falls in h, `tail[t] = a (c_k - c_t)` rises in t.
    """

    def __init__(self, histogram: Histogram, k: int, gamma: Fraction) -> None:
        self.k, self.d = k, histogram.items
        self._histogram, self._least = histogram, int(histogram.top(k)[-1])
        self._a, self._rest = gamma.numerator, gamma.denominator - gamma.numerator
        self._known: dict[tuple[int, int, int], arb] = {}

    def everything(self) -> Rectangle:
        """All sets but the top k."""
        return Rectangle(self, 0, len(self.heads) - 1, 0, len(self.tails) - 1)

    @cached_property
    def heads(self) -> NDArray[np.int64]:
        """Where runs of equal head losses start among h = 0 .. k - 1, and k."""
        return self._runs(0, self.k, self._rest)

    @cached_property
    def tails(self) -> NDArray[np.int64]:
        """Where runs of equal tail losses start among t = k + 1 .. d, and d + 1."""
        return 1 + self._runs(self.k, self.d, self._a)

    def head(self, h: int) -> int:
        return self._rest * (self._count(h) - self._least)

    def tail(self, t: int) -> int:
        return self._a * (self._least - self._count(t - 1))

    def _count(self, rank: int) -> int:
        ends = self._histogram.ends
        return int(self._histogram.values[np.searchsorted(ends, rank, "right")])

    def _runs(self, first: int, end: int, weight: int) -> NDArray[np.int64]:
        """Where runs of equal weight * counts start among the ranks first .. end - 1, and the end."""
        ends = self._histogram.ends
        inside = ends[np.searchsorted(ends, first, "right") : np.searchsorted(ends, end, "left")] if weight else ()
        return np.concatenate(([first], inside, [end])).astype(np.int64)

    def within(self, t: int, h: int) -> fmpz:
        """How many k-sets hold the ranks 1..h and none beyond t."""
        return fmpz.bin_uiui(t - h, self.k - h)

    def within_ball(self, t: int, h: int) -> arb:
        """The same as a ball, some times cheaper for large k."""
        key = (t, h, ctx.prec)
        if key not in self._known:
            self._known[key] = arb.bin_uiui(t - h, self.k - h)
        return self._known[key]


@dataclass
class Rectangle:
    """The classes (h, t) of the runs first_head .. end_head - 1 of head losses, and likewise of tail losses."""

    classes: Classes
    first_head: int
    end_head: int
    first_tail: int
    end_tail: int
    least_loss: int = field(init=False)

    def __post_init__(self) -> None:
        heads, tails = self.classes.heads, self.classes.tails
        self.h, self.h_end = int(heads[self.first_head]), int(heads[self.end_head])
        self.t, self.t_end = int(tails[self.first_tail]), int(tails[self.end_tail])
        self.least_loss = self.classes.head(self.h_end - 1) + self.classes.tail(self.t)

    def size(self) -> arb:
        within = self.classes.within_ball
        last, before = self.t_end - 1, self.t - 1
        return within(last, self.h) - within(last, self.h_end) - within(before, self.h) + within(before, self.h_end)

    def split(self) -> tuple[Rectangle, Rectangle] | None:
        """Two rectangles, cut across the axis along which the losses differ more."""
        c = self.classes
        heads, tails = self.end_head - self.first_head, self.end_tail - self.first_tail
        if heads == tails == 1:
            return None
        head_spread = c.head(self.h) - c.head(self.h_end - 1)
        tail_spread = c.tail(self.t_end - 1) - c.tail(self.t)
        if head_spread > tail_spread:
            cut = _middle(c.heads, self.first_head, self.end_head)
            return (
                Rectangle(c, cut, self.end_head, self.first_tail, self.end_tail),
                Rectangle(c, self.first_head, cut, self.first_tail, self.end_tail),
            )
        cut = _middle(c.tails, self.first_tail, self.end_tail)
        return (
            Rectangle(c, self.first_head, self.end_head, self.first_tail, cut),
            Rectangle(c, self.first_head, self.end_head, cut, self.end_tail),
        )

    def draw_ranks(self, draw: Draw) -> NDArray[np.int64]:
        """A uniform set of the rectangle: its ranks, from 0."""
        k = self.classes.k
        number = draw.below(self._up_to(self.t_end - 1))
        t = self.t + bisect_left(range(self.t, self.t_end), number + 1, key=self._up_to)
        number -= self._up_to(t - 1)
        h = self.h + bisect_left(range(self.h, self.h_end), number + 1, key=lambda h: self._ending_at(t, h))
        body = uniform_subset(draw, t - h - 2, k - 1 - h)
        return np.array([*range(h), *(h + 1 + i for i in body), t - 1])

    def _up_to(self, t: int) -> int:
        """The number of its sets whose last rank is at most t."""
        within = self.classes.within
        both = within(t, self.h) - within(t, self.h_end)
        return int(both - within(self.t - 1, self.h) + within(self.t - 1, self.h_end))

    def _ending_at(self, t: int, h: int) -> int:
        """The number of its sets whose last rank is t and that miss one of the ranks up to h + 1."""
        within = self.classes.within
        starting = within(t, self.h) - within(t - 1, self.h)
        return int(starting - within(t, h + 1) + within(t - 1, h + 1))


def _middle(starts: NDArray[np.int64], first: int, end: int) -> int:
    """The run nearest to the middle of the ranks: fewer splits than halving the number of runs."""
    middle = (int(starts[first]) + int(starts[end])) // 2
    return min(max(bisect_left(starts, middle, first, end), first + 1), end - 1)
