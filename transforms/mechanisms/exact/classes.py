"""The k-sets of items by their canonical loss, as regions that a race can split."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from copy import copy
from fractions import Fraction
from typing import Any, cast

import numpy as np
from flint import arb, ctx, fmpz
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw, uniform_subset
from private_topk.transforms.mechanisms.exact.histogram import Histogram, Indices
from private_topk.transforms.mechanisms.exact.reals import precision

_PRECISION = 96


class TopK:
    """The one set of the ranks 1..k. Losses are counted from its own."""

    least_loss = 0

    def __init__(self, k: int) -> None:
        self._k = k

    def size(self) -> arb:
        return arb(1)

    def split(self) -> None:
        return None

    def draw_ranks(self, draw: Draw) -> Indices:
        """Its ranks, from 0."""
        return np.arange(self._k)


class Classes:
    """The sets other than the top k, by (h, t): they hold the ranks 1..h, not h + 1, and their last rank is t.

    A set loses `(b - a) (c_{h+1} - c_k)`, which falls in h, plus `a (c_k - c_t)`, which rises in t, more than the top k
    does, in units of 1/b for gamma = a/b.

    Attributes:
        heads: where runs of equal head losses start among h = 0 .. k - 1, and k; shape (m + 1,).
        tails: where runs of equal tail losses start among t = k + 1 .. d, and d + 1. Those far below the k-th are one
            run until `deepen` is called.
        head_losses, tail_losses: the least loss of each run, shape (m,).
        most_tail_loss: that of the last rank.
    """

    def __init__(self, histogram: Histogram, k: int, gamma: Fraction, rate: Fraction) -> None:
        self.k, self.d = k, histogram.items
        self._histogram, self._least = histogram, int(histogram.top(k)[-1])
        self._a = gamma.numerator
        # There are fewer than d**k sets: those that weigh e**-30 d**-k or less each are hardly ever looked at.
        self._far = self._least - int((k * self.d.bit_length() + 30) / rate) // max(self._a, 1)
        self._factorials: dict[int, dict[int, arb]] = {}  # at each precision
        values, ends = histogram.down_to(self._least)
        heads, losses = _runs(values, ends, 0, k, gamma.denominator - self._a)
        self.heads, self.head_losses = _listed(heads), _listed(losses - losses[-1])
        self.most_tail_loss = self._a * (self._least - histogram.smallest)
        self._find_tails()

    def everything(self) -> Rectangle:
        """All sets but the top k."""
        return Rectangle(self, 0, len(self.heads) - 1, 0, None)

    def anew(self) -> Classes:
        """The same classes, of whose sizes nothing is known."""
        other = copy(self)
        other._factorials = {}
        return other

    def deepen(self) -> None:
        """Tell all runs of tail losses apart. Those before the last one keep their places."""
        self._far = 0
        self._find_tails()

    @property
    def deep(self) -> bool:
        """Whether all of them are told apart."""
        return self._far <= 0 or not self._a

    def _find_tails(self) -> None:
        values, ends = self._histogram.down_to(max(0, self._far))
        if ends[-1] < self.d:
            rest = self._histogram.counts_at(ends[-1:])
            values, ends = np.append(values, rest), np.append(ends, self.d)
        elif self._far > 0:
            self._far = 0
        starts, losses = _runs(values, ends, self.k, self.d, self._a)
        self.tails, self.tail_losses = _listed(1 + starts), _listed(self._a * self._least - losses)

    def within(self, t: int, h: int) -> fmpz:
        """How many k-sets hold the ranks 1..h and none beyond t."""
        return fmpz.bin_uiui(t - h, self.k - h)

    def within_ball(self, t: int, h: int) -> arb:
        """The same as a ball, by factorials, of which a race needs few: some times cheaper for large k."""
        known = self._factorials.setdefault(ctx.prec, {})
        for n in (t - h, self.k - h, t - self.k):
            if n not in known:
                known[n] = arb.fac_ui(n)
        return known[t - h] / (known[self.k - h] * known[t - self.k])

    def without_ball(self, t: int, h: int, end: int) -> arb:
        """Of the k-sets that hold the ranks 1..h and none beyond t, how many miss one of the ranks up to `end`."""
        return self.within_ball(t, h) - self.within_ball(t, end)


class Rectangle:
    """The classes (h, t) of the runs first_head .. end_head - 1 of head losses, and likewise of tail losses.

    Without an `end_tail` they go on to the last run, however many there are.
    """

    __slots__ = (
        "_known",
        "classes",
        "end_head",
        "end_tail",
        "first_head",
        "first_tail",
        "h",
        "h_end",
        "least_loss",
        "t",
        "t_end",
    )

    def __init__(self, classes: Classes, first_head: int, end_head: int, first_tail: int, end_tail: int | None) -> None:
        self.classes = classes
        self.first_head, self.end_head, self.first_tail, self.end_tail = first_head, end_head, first_tail, end_tail
        heads, tails = classes.heads, classes.tails
        self.h, self.h_end = heads[first_head], heads[end_head]
        self.t, self.t_end = tails[first_tail], tails[len(tails) - 1 if end_tail is None else end_tail]
        self.least_loss = classes.head_losses[end_head - 1] + classes.tail_losses[first_tail]
        # A precision, and at it how many sets hold the ranks 1..h, or one head more, and none beyond the last t, or the
        # one before the first.
        self._known: tuple[int, arb, arb, arb, arb] | None = None

    @property
    def _end_tail(self) -> int:
        return len(self.classes.tails) - 1 if self.end_tail is None else self.end_tail

    def size(self) -> arb:
        _, last, last_without, before, before_without = self._corners()
        return last - last_without - before + before_without

    def _corners(self) -> tuple[int, arb, arb, arb, arb]:
        known = self._known
        if known is None or known[0] != ctx.prec:
            within, last, before = self.classes.within_ball, self.t_end - 1, self.t - 1
            known = (
                ctx.prec,
                within(last, self.h),
                within(last, self.h_end),
                within(before, self.h),
                within(before, self.h_end),
            )
            self._known = known
        return known

    def split(self) -> tuple[Rectangle, Rectangle] | None:
        """Two rectangles, cut across the axis along which the losses differ more."""
        c = self.classes
        if self.end_tail is None and self.first_tail == len(c.tails) - 2 and not c.deep:
            c.deepen()
        heads, tails = self.end_head - self.first_head, self._end_tail - self.first_tail
        if heads == tails == 1:
            return None
        head_spread = c.head_losses[self.first_head] - c.head_losses[self.end_head - 1]
        most = c.most_tail_loss if self.end_tail is None else c.tail_losses[self.end_tail - 1]
        if head_spread > most - c.tail_losses[self.first_tail]:
            return self._cut_heads(_middle(c.heads, self.first_head, self.end_head))
        return self._cut_tails(_middle(c.tails, self.first_tail, self._end_tail))

    def _cut_heads(self, cut: int) -> tuple[Rectangle, Rectangle]:
        """The one of smaller losses first, as their corners follow from these."""
        c, tails = self.classes, (self.first_tail, self.end_tail)
        near, far = Rectangle(c, cut, self.end_head, *tails), Rectangle(c, self.first_head, cut, *tails)
        at, last, last_without, before, before_without = self._corners()
        middle, middle_before = c.within_ball(self.t_end - 1, near.h), c.within_ball(self.t - 1, near.h)
        near._known = (at, middle, last_without, middle_before, before_without)
        far._known = (at, last, middle, before, middle_before)
        return near, far

    def _cut_tails(self, cut: int) -> tuple[Rectangle, Rectangle]:
        c, heads = self.classes, (self.first_head, self.end_head)
        near, far = Rectangle(c, *heads, self.first_tail, cut), Rectangle(c, *heads, cut, self.end_tail)
        at, last, last_without, before, before_without = self._corners()
        middle, without = c.within_ball(far.t - 1, self.h), c.within_ball(far.t - 1, self.h_end)
        near._known = (at, middle, without, before, before_without)
        far._known = (at, last, last_without, middle, without)
        return near, far

    def draw_ranks(self, draw: Draw) -> Indices:
        """A uniform set of the rectangle: its ranks, from 0."""
        k, c, heads = self.classes.k, self.classes, (self.h, self.h_end)
        number = draw.below(self._up_to(self.t_end - 1))
        with precision(_PRECISION):
            before = c.without_ball(self.t - 1, *heads)
            t = _least(self.t, self.t_end - 1, number, self._up_to, lambda t: c.without_ball(t, *heads) - before)
            number -= self._up_to(t - 1)
            h = _least(
                self.h,
                self.h_end - 1,
                number,
                lambda h: self._ending_at(t, h),
                lambda h: c.without_ball(t, self.h, h + 1) - c.without_ball(t - 1, self.h, h + 1),
            )
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


def _least(first: int, last: int, number: int, exact: Callable[[int], int], near: Callable[[int], arb]) -> int:
    """The least x in first .. last with exact(x) > number, which `last` has; exact rises. `near` encloses it."""
    below, above = arb(number), arb(number + 1)
    while first < last:
        middle = (first + last) // 2
        value = near(middle)
        if value > below or (not value < above and exact(middle) > number):
            last = middle
        else:
            first = middle + 1
    return first


def _runs(values: Indices, ends: Indices, first: int, end: int, weight: int) -> tuple[Indices, Indices]:
    """Where runs of equal weight * counts start among the ranks first .. end - 1, and the end; what each weighs."""
    low, high = int(ends.searchsorted(first, "right")), int(ends.searchsorted(end, "left"))
    if not weight:
        high = low
    if weight * int(values[0]) >= 2**63:
        values = values.astype(object)  # Python's integers
    return np.concatenate(([first], ends[low:high], [end])), weight * values[low : high + 1]


def _listed(values: NDArray[Any]) -> Sequence[int]:
    """Whole numbers of which a few are looked at one by one, as Python's own."""
    # A view of the memory costs nothing where there are many.
    return values.tolist() if values.dtype == object else cast("Sequence[int]", values.data)


def _middle(starts: Sequence[int], first: int, end: int) -> int:
    """The run nearest to the middle of the ranks: fewer splits than halving the number of runs."""
    middle = (starts[first] + starts[end]) // 2
    return min(max(bisect_left(starts, middle, first, end), first + 1), end - 1)
