"""Sets of ranks between two staircases: how many there are, and a uniform one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from flint import arb, arb_poly, ctx
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw, uniform_subset
from private_topk.transforms.mechanisms.exact.histogram import Histogram, Indices
from private_topk.transforms.mechanisms.exact.noise import Floats
from private_topk.transforms.mechanisms.exact.reals import Real, precision, uniform

_WALK_LANE = 1
_EASY = 20  # segments in units of k**(6/5): some data take a draw 34
_STEP = 9
_PRECISION = 96
_MAX_WHOLE_MEMBERS = 75  # members, for which a band is about as wide as all
_LEFT_OUT = 45 * math.log(2)  # what is left out may be one part in 2**45
_MARGIN = 1.0  # of logarithms in floats: their sums err by less than 2**-20
_DOWN, _UP = (12, 12), (14, 16)  # how far a band goes from the line: standard deviations, and members beside them
_ACROSS = (16, 60)  # the same for the members of one segment
_FALLING = math.log(0.9)
_STEEPEST = 1 - 2.0**-20


class SetLosses:
    """How many sets lose at most R: those with j_i <= t_i(R), the number of counts that are at least c_i - R."""

    def __init__(self, histogram: Histogram, k: int) -> None:
        self._histogram, self._k, self._d = histogram, k, histogram.items
        self._top = histogram.top(k)
        self.most = int((self._top - histogram.bottom(k)).max())
        self._numbers: dict[tuple[int, int], arb] = {}
        self._segments = 0

    def reach(self, loss: int) -> Indices:
        """t_i(loss), shape (k,)."""
        return self._histogram.at_least(self._top - loss)

    def number(self, loss: int) -> arb:
        """How many sets lose at most this, as a ball at the working precision."""
        key = (loss, ctx.prec)
        if key not in self._numbers:
            self._numbers[key] = self._counted(loss)
        return self._numbers[key]

    def _counted(self, loss: int) -> arb:
        if loss >= self.most:  # all sets: no need to look at the smallest counts
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

    def draw_between(self, below: int | None, most: int, draw: Draw) -> Indices:
        """A uniform set among those that lose at most `most` and, unless it is None, more than `below`: its ranks."""
        sets = SetsBetween(self.reach(most), None if below is None else self.reach(below))
        numbers = [uniform(draw, _WALK_LANE, i) for i in range(len(sets.segments))]
        ranks, start = [], 0
        for segment, m in zip(sets.segments, sets.members(numbers), strict=True):
            ranks += [start + i for i in uniform_subset(draw, segment.size, m)]
            start += segment.size
        return np.array(ranks)

    def pad(self) -> None:
        """Count sets on made-up counts after an easy draw: how long a draw takes must not tell much of the data.

        A release draws once; a further draw, for which much is counted already, is not padded again.
        """
        sets = SetsBetween(_STEP * np.arange(1, self._k + 1))
        with precision(96):
            while self._segments < _EASY * self._k**1.2:
                sets.number()
                self._segments += self._k


@dataclass(frozen=True)
class Segment:
    """A run of `size` ranks. At least `need` of a set lie in the segments up to it; of the inner staircase `spare`."""

    size: int
    need: int
    spare: int


@dataclass(frozen=True)
class _Ways:
    """In how many ways a members can lie in the segments so far, for `least` <= a <= k: coefficient a - least."""

    numbers: arb_poly
    least: int

    def times(self, weights: arb_poly, k: int) -> _Ways:
        """After another segment, of which `weights[b]` ways choose b members."""
        return _Ways((self.numbers * weights).truncate(k - self.least + 1), self.least)

    def at_least(self, least: int) -> arb_poly:
        """The part with at least that many members, coefficients moved to begin there."""
        shift = least - self.least
        return self.numbers.right_shift(shift) if shift >= 0 else self.numbers.left_shift(-shift)

    def below(self, end: int) -> _Ways:
        """The part with fewer than `end` members."""
        return _Ways(self.numbers.truncate(end - self.least), self.least)

    def __getitem__(self, a: int) -> arb:
        return self.numbers[a - self.least]


class SetsBetween:
    """The k-sets j_1 < ... < j_k with j_i <= outer_i for all i, and j_i > inner_i for at least one i.

    Only the distinct values of the staircases matter: between two of them lies a segment of ranks, and a set breaks a
    staircase exactly where it has too few members up to the end of a segment. A set is *clean* up to there while it
    keeps to the inner staircase, then *dirty*. So the counting is a product of polynomials, segment by segment, that
    loses its first coefficients; all terms are positive, and balls stay narrow.

    Example: pairs j_1 < j_2 with j_1 <= 2 and j_2 <= 4. The ends 2 and 4 make the segments {1, 2} and {3, 4}, each with
    the weights 1 + 2x + x**2: one way to choose none, two to choose one, one to choose both. After the first segment at
    least one must be chosen, which leaves 2x + x**2; times the second segment's weights the coefficient of x**2 is
    2 * 2 + 1 * 1 = 5: all pairs but {3, 4}. With the inner staircase (1, 3), sets that keep to j_1 <= 1 and j_2 <= 3
    are left out: {1, 2} and {1, 3} are clean to the end; {1, 4} is clean after rank 1 and dirty from its second member
    on.

    Args:
        outer, inner: rising staircases, shape (k,), ranks from 1, inner_i <= outer_i; without `inner` all sets under
            `outer` are meant.
    """

    def __init__(self, outer: Indices, inner: NDArray[np.int64] | None = None) -> None:
        self._k = len(outer)
        self._all = inner is None
        ends = np.unique(outer if inner is None else np.concatenate((inner, outer)))
        self._sizes, self._need = sizes, need = np.diff(ends, prepend=0), np.searchsorted(outer, ends, "right")
        spare = need if inner is None else np.searchsorted(inner, ends, "right")
        self.segments = [Segment(*s) for s in zip(sizes.tolist(), need.tolist(), spare.tolist(), strict=True)]

    def number(self) -> arb:
        """How many sets there are, as a ball, whose width is that of the working precision or one part in 2**45.

        Cost: a product of polynomials a segment, of degree k at most.
        """
        if self._all and self._k > _MAX_WHOLE_MEMBERS and ctx.prec <= _PRECISION:
            near = number_in_band(self._sizes, self._need)
            if near is not None:
                return near
        return self._ways()[-1][0][self._k]

    def members(self, numbers: Sequence[Real]) -> list[int]:
        """How many members a uniform set has in each segment, from one uniform real for each."""
        bits = _PRECISION
        while True:
            with precision(bits):
                members = self._walk(numbers)
            if members is not None:
                return members
            bits *= 2

    def _ways(self) -> list[tuple[_Ways, _Ways]]:
        """The ways to be dirty, and to be clean, before each segment and after the last."""
        one, none = _Ways(arb_poly([1]), 0), _Ways(arb_poly([]), 0)
        table = [(one, none) if self._all else (none, one)]
        for segment in self.segments:
            dirty, clean = table[-1]
            most = min(segment.size, self._k - dirty.least)
            weights = row_of_binomials(segment.size, most)
            dirty, clean = dirty.times(weights, self._k), clean.times(weights, self._k)
            broken = clean.below(segment.spare).at_least(segment.need)
            table.append(
                (
                    _Ways(dirty.at_least(segment.need) + broken, segment.need),
                    _Ways(clean.at_least(segment.spare), segment.spare),
                )
            )
        return table

    def _walk(self, numbers: Sequence[Real]) -> list[int] | None:
        """The members by segment, from the last back to the first; None where the balls are too wide to tell."""
        # Of the 5 pairs of the example the last segment holds one member in 4, and none in 1.
        chosen, in_dirty, a = [], True, self._k
        for segment, before, number in zip(self.segments[::-1], self._ways()[-2::-1], numbers, strict=True):
            # A set that is dirty now was dirty before, or breaks the inner staircase here; a clean one was clean.
            rows = before if in_dirty and a < segment.spare else before[:1] if in_dirty else before[1:]
            states = [(row, b) for row in rows for b in range(min(segment.size, a - row.least) + 1)]
            place = _place([row[a - b] * arb.bin_uiui(segment.size, b) for row, b in states], number)
            if place is None:
                return None
            row, b = states[place]
            in_dirty, a = row is before[0], a - b
            chosen.append(b)
        return chosen[::-1]


def _place(ways: Sequence[arb], number: Real) -> int | None:
    """The place that a uniform real falls on, each having its share of the ways; None if that is open."""
    ends = list(accumulate(ways))
    ticket = number() * ends[-1]
    place = next((i for i, end in enumerate(ends) if not end < ticket), None)
    return place if place is not None and ends[place] > ticket else None


def row_of_binomials(n: int, most: int) -> arb_poly:
    """The binomials of n over 0 .. most, most <= n, each from the one before it: a tenth of the cost of each alone."""
    weight = arb(1)
    row = [weight]
    for b in range(most):
        weight = weight * (n - b) / (b + 1)
        row.append(weight)
    return arb_poly(row)


def number_in_band(sizes: Indices, needs: Indices) -> arb | None:
    """A ball of the number of sets with at least needs[s] members in the segments up to s, and needs[-1] in all, no
    wider than one part in 2**40; None where what is left out cannot be shown to be less than one part in 2**45.

    Args:
        sizes, needs: of the segments, at least 1; needs rise; shape (m,) both.

    Cost: for each segment a product of rows of about 20 sqrt(k) and of some tens of numbers.

    A set of k ranks is a path: how many members it has up to the end of each segment. All paths take, for each segment,
    a product of polynomials of degree k. But the numbers of members spread over some sqrt(k) values only: of 1,000
    members of which 300 are expected up to some rank, 14 more or fewer, rows from 165 to 465 hold all but one part in
    2**60. What lies beyond is bounded, with a margin; the ball that comes out holds the true number.
    """
    band, row, least = _Band(sizes, needs), arb_poly([1]), 0
    for s, (low, high) in enumerate(band.rows()):
        row = row * row_of_binomials(int(sizes[s]), band.widest(s, high - least))
        if not band.leaves(s, row, least, low, high):
            return None
        row, least = row.truncate(high - least + 1).right_shift(low - least), low
    number = row[band.members - least]
    if not number > 0 or band.left_out() > float(number.log().lower()) - _LEFT_OUT:
        return None
    return number + arb(band.left_out()).exp() * arb(0.5, 0.5)


class _Band:
    """Which rows to count of each segment, and a bound on what that leaves out.

    Of numbers z_1 >= z_2 >= ... > 0, a path that goes on from a members after segment s and keeps to the staircase has

        product over i > s of z_i**b_i  >=  z_m**k * product over j >= s of (z_j / z_(j+1))**need_j  /  z_(s+1)**a,

    b_i being its members in segment i, since its partial sums are at least the needs. So it goes on in at most
    exp(d_s) z_(s+1)**a ways, with d_m = -k log z_m and d_(s-1) = d_s + need_s log(z_(s+1) / z_s) + n_s log(1 + z_s).
    """

    def __init__(self, sizes: Indices, needs: Indices) -> None:
        self.sizes, self._needs, self.members = sizes, needs, int(needs[-1])
        # The bound is closest where z / (1 + z) is the slope of the least concave line above the staircase.
        slopes = np.minimum(_slopes(np.cumsum(sizes), needs), _STEEPEST)
        self._means, self._variances = sizes * slopes, sizes * slopes * (1 - slopes)
        self.log_z = log_z = np.log(slopes) - np.log1p(-slopes)
        self._next_log_z = np.append(log_z[1:], log_z[-1])
        steps = needs * (self._next_log_z - log_z) - sizes * np.log1p(-slopes)
        self._ways = np.cumsum(np.append(-self.members * log_z[-1], steps[::-1]))[::-1]  # d_0, d_1, ...
        self._after = np.sum(sizes) - np.cumsum(sizes)  # ranks after each segment
        self._out: list[float] = []  # logarithms

    def rows(self) -> Iterator[tuple[int, int]]:
        """The least and the most members to count up to each segment."""
        sums, variances = np.cumsum(self._means), np.cumsum(self._variances)
        spread = np.sqrt(variances * (variances[-1] - variances) / max(variances[-1], 1e-9))
        low = np.maximum(self._needs, np.floor(sums - _DOWN[0] * spread - _DOWN[1]).astype(np.int64))
        high = np.minimum(self.members, np.ceil(sums + _UP[0] * spread + _UP[1]).astype(np.int64))
        high[-1] = self.members
        return zip(low.tolist(), np.maximum(low, high).tolist(), strict=True)

    def widest(self, s: int, most: int) -> int:
        """How many members of a segment to count with, at most."""
        size, variance = int(self.sizes[s]), float(self._variances[s])
        widest = min(size, int(self._means[s] + _ACROSS[0] * math.sqrt(variance)) + _ACROSS[1])
        if widest < min(size, most):
            # Bernstein's bound for a binomial number: of all paths, weighed by the z, so many have more members here.
            t = widest + 1 - float(self._means[s])
            self._out.append(float(self._ways[0]) - t * t / (2 * (variance + t / 3)))
        return min(widest, most)

    def leaves(self, s: int, row: arb_poly, least: int, low: int, high: int) -> bool:
        """Note what is left out of a row, which begins at `least`; False where there is no bound on it."""
        above = high < self.members and row.degree() > high - least
        below = low > max(least, int(self._needs[s]))
        return (not above or self._note(s, row, least, high, 1)) and (not below or self._note(s, row, least, low, -1))

    def _note(self, s: int, row: arb_poly, least: int, last: int, side: int) -> bool:
        """Those of the row that lie beyond `last` on one side."""
        near, far = row[last - least], row[last + side - least]
        if not near > 0 or not far > 0:
            return False
        # Ways are log-concave in the number of members: products and cuts of such rows are such rows. So the tail that
        # is left out is at most its first term over one minus the first quotient.
        step, first = float((far / near).log().upper()), float(far.log().upper())
        bounds = []
        for ways in (self._bounded, self._unbounded):
            beyond, before = ways(s, last + side), ways(s, last)
            quotient = step + beyond - before
            if quotient < _FALLING:
                bounds.append(first + beyond - math.log1p(-math.exp(quotient)))
        self._out += [min(bounds)] if bounds else []
        return bool(bounds)

    def _bounded(self, s: int, a: int) -> float:
        """The logarithm of a bound on how many ways there are to go on from a members after segment s."""
        return float(self._ways[s + 1]) + a * float(self._next_log_z[s])

    def _unbounded(self, s: int, a: int) -> float:
        """The same without the staircase: closer where little is left to choose."""
        n, m = int(self._after[s]), self.members - a
        return -math.inf if m > n else math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)

    def left_out(self) -> float:
        """The logarithm of a bound on the number of all sets left out."""
        if not self._out:
            return -math.inf
        return max(self._out) + math.log(len(self._out)) + _MARGIN


def _slopes(ends: Indices, needs: Indices) -> Floats:
    """The slopes, over each segment, of the least concave line above the points (ends, needs) and (0, 0)."""
    xs, ys = [0, *ends.tolist()], [0, *needs.tolist()]
    corners: list[int] = []
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        while len(corners) > 1:
            a, b = corners[-2:]
            if (ys[b] - ys[a]) * (x - xs[a]) > (y - ys[a]) * (xs[b] - xs[a]):
                break
            corners.pop()
        corners.append(i)
    slopes = [(ys[b] - ys[a]) / (xs[b] - xs[a]) for a, b in zip(corners, corners[1:], strict=False)]
    return np.repeat(slopes, np.diff(corners))
