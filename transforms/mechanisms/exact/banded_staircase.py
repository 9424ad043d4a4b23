"""How many sets lie under a staircase, counted along the band of paths that nearly all of them take.

A set of k ranks is a path: how many members it has up to the end of each segment. Counting all paths takes, for each
segment, a product of polynomials of degree k. But the numbers of members spread over some sqrt(k) values only, and
what lies beyond is bounded: for numbers z_1 >= z_2 >= ... > 0, a path that goes on from a members after segment s and
keeps to the staircase has

    product over i > s of z_i**b_i  >=  z_m**k * product over j >= s of (z_j / z_(j+1))**need_j  /  z_(s+1)**a,

b_i being its members in segment i, since its partial sums are at least the needs. So it goes on in at most
exp(d_s) z_(s+1)**a ways, with d_m = -k log z_m and d_(s-1) = d_s + need_s log(z_(s+1) / z_s) + n_s log(1 + z_s). The
bound is closest where z_i / (1 + z_i) is the slope of the least concave line above the staircase.

Ways are log-concave in the number of members: products and cuts of such rows are such rows. So a tail that is left out
is at most its first term over one minus the first quotient. Floats only choose the band and bound, with a margin, what
is left out; the ball that comes out holds the true number.

Example: of 1,000 members 300 are expected up to some rank, 14 more or fewer. Rows from 165 to 465 hold all but one part
in 2**60, and a segment of 50 ranks after it has hardly ever more than 50 of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from flint import arb, arb_poly
from numpy.typing import NDArray

__all__ = ["number_in_band", "row_of_binomials"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_LEFT_OUT = 45 * math.log(2)  # what is left out may be one part in 2**45
_MARGIN = 1.0  # of logarithms in floats: their sums err by less than 2**-20
_DOWN, _UP = (12, 12), (14, 16)  # how far a band goes from the line: standard deviations, and members beside them
_ACROSS = (16, 60)  # the same for the members of one segment
_FALLING = math.log(0.9)
_STEEPEST = 1 - 2.0**-20
_UNIT = 2.0**-52  # twice the rounding of an operation on doubles
_LEAST = 2.0**-800  # of a double in a row: what products lose below the range of doubles is nothing beside it
_RANGE = 900  # binary digits
_LOW = -100  # of the largest product


def row_of_binomials(n: int, most: int) -> arb_poly:
    """The binomials of n over 0 .. most, most <= n, each from the one before it: a tenth of the cost of each alone."""
    weight = arb(1)
    row = [weight]
    for b in range(most):
        weight = weight * (n - b) / (b + 1)
        row.append(weight)
    return arb_poly(row)


def number_in_band(sizes: Indices, needs: Indices) -> arb | None:
    """A ball of the number of sets with at least needs[s] members in the segments up to s, and needs[-1] in all.

    None where what is left out cannot be shown to be less than one part in 2**45. The ball is no narrower than one part
    in 2**45 or, of many segments, 2**35: the rows are doubles, with a bound on all roundings, where these reach.

    Args:
        sizes, needs: of the segments, at least 1; needs rise; shape (m,) both.

    Cost: for each segment a product of rows of about 20 sqrt(k) and of some tens of numbers.
    """
    for kind in (_Doubles, _Balls):
        band = _Band(sizes, needs)
        number = _counted(band, kind(band))
        if number is not None:
            return number
    return None


def _counted(band: _Band, row: _Doubles | _Balls) -> arb | None:
    least = 0
    for s, (low, high) in enumerate(band.rows()):
        if not row.multiply(s, band.widest(s, high - least)) or not band.leaves(s, row, least, low, high):
            return None
        if not row.cut(low - least, high - least):
            return None
        least = low
    number = row.number(band.members - least)
    if not number > 0 or band.left_out() > float(number.log().lower()) - _LEFT_OUT:
        return None
    return number + arb(band.left_out()).exp() * arb(0.5, 0.5)


class _Balls:
    """In how many ways there are as many members in the segments so far: coefficients of a polynomial."""

    def __init__(self, band: _Band) -> None:
        self._sizes, self._row = band.sizes, arb_poly([1])

    def multiply(self, s: int, most: int) -> bool:
        """Go on to the end of segment s, of which at most so many members are counted."""
        self._row = self._row * row_of_binomials(int(self._sizes[s]), most)
        return True

    @property
    def last(self) -> int:
        """The place of the last number."""
        return self._row.degree()

    def step(self, inner: int, outer: int) -> tuple[float, float] | None:
        """Upper bounds of the logarithms of a quotient of neighbours, and of the outer one; None if one may be 0."""
        near, far = self._row[inner], self._row[outer]
        if not near > 0 or not far > 0:
            return None
        return float((far / near).log().upper()), float(far.log().upper())

    def cut(self, first: int, last: int) -> bool:
        """Keep the places first .. last."""
        self._row = self._row.truncate(last + 1).right_shift(first)
        return True

    def number(self, place: int) -> arb:
        return self._row[place]


class _Doubles:
    """The same in doubles: the number of a members is values[a - least] * 2**-(tilt * a + shift), within `error` of it.

    The tilt is whole, so that changing it rounds nothing, and follows log2 of z, so that no number of a row is much
    larger than others. All numbers are positive: relative errors add up, in whatever order a sum is made.
    """

    def __init__(self, band: _Band) -> None:
        self._sizes, self._tilts = band.sizes, np.rint(band.log_z / math.log(2)).astype(np.int64).tolist()
        self._values, self._least, self._tilt, self._shift, self._error = np.ones(1), 0, self._tilts[0], 0, 0.0

    def multiply(self, s: int, most: int) -> bool:
        """Go on to the end of segment s; False where the range of doubles does not reach."""
        n = int(self._sizes[s])
        if n >= 2**52 or not self._lean(self._tilts[s]):
            return False
        weights, start = _weights(n, most, self._tilt)
        products = np.convolve(self._values, weights)
        largest = float(np.maximum.reduce(products))
        top = math.frexp(largest)[1]
        # Weights and products below the range are wrong by less than 2**-1022 each, beside a largest of 2**_LOW.
        if not largest < math.inf or top < _LOW:
            return False
        self._error += _UNIT * (2 * most + min(len(self._values), most + 1) + 3)
        self._values = np.ldexp(products, -top)
        self._shift += start - top
        return True

    def _lean(self, tilt: int) -> bool:
        """Change the tilt: powers of two, which round nothing within the range."""
        if tilt != self._tilt:
            more, centre = tilt - self._tilt, len(self._values) // 2
            leaning = np.ldexp(self._values, more * (np.arange(len(self._values)) - centre))
            top = math.frexp(float(leaning.max()))[1]
            self._values = np.ldexp(leaning, -top)
            self._shift -= more * (self._least + centre) + top
            self._tilt = tilt
        return self._within()

    def _within(self) -> bool:
        """Whether no number is too small: the least of a log-concave row is at an end. Those too large are infinite."""
        return bool(len(self._values)) and float(self._values[0]) > _LEAST and float(self._values[-1]) > _LEAST

    @property
    def last(self) -> int:
        """The place of the last number."""
        return len(self._values) - 1

    def step(self, inner: int, outer: int) -> tuple[float, float] | None:
        """Upper bounds of the logarithms of a quotient of neighbours, and of the outer one; None if one may be 0."""
        near, far = float(self._values[inner]), float(self._values[outer])
        if not (near > _LEAST and far > _LEAST):
            return None
        digits = self._tilt * (self._least + outer) + self._shift
        quotient = math.log(far / near) - self._tilt * (outer - inner) * math.log(2)
        return quotient + 2.0**-20, math.log(far) - digits * math.log(2) + 2.0**-20

    def cut(self, first: int, last: int) -> bool:
        """Keep the places first .. last; False where one is too small."""
        self._values, self._least = self._values[first : last + 1], self._least + first
        return self._within()

    def number(self, place: int) -> arb:
        error, digits = self._error + 2.0**-45, self._tilt * (self._least + place) + self._shift
        return arb(float(self._values[place])) * arb((1, -digits)) * arb(1, error)


@lru_cache(maxsize=1024)
def _weights(n: int, most: int, tilt: int) -> tuple[Floats, int]:
    """The binomials of n times 2**(tilt b + start) over b = 0 .. most, and the start; many segments are of one size."""
    # The largest weight is at most (1 + 2**tilt)**n.
    start = -min(_RANGE, int(n * math.log2(1 + 2.0**tilt)))
    members = np.arange(most, dtype=np.float64)
    steps = np.concatenate(([2.0**start], np.ldexp((n - members) / (members + 1), tilt)))
    with np.errstate(over="ignore"):  # what is infinite goes on in balls
        weights: Floats = np.cumprod(steps, dtype=np.float64)
    weights.flags.writeable = False
    return weights, start


class _Band:
    """Which rows to count of each segment, and a bound on what that leaves out."""

    def __init__(self, sizes: Indices, needs: Indices) -> None:
        self.sizes, self._needs, self.members = sizes, needs, int(needs[-1])
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

    def leaves(self, s: int, row: _Doubles | _Balls, least: int, low: int, high: int) -> bool:
        """Note what is left out of a row, which begins at `least`; False where there is no bound on it."""
        above = high < self.members and row.last > high - least
        below = low > max(least, int(self._needs[s]))
        return (not above or self._note(s, row, least, high, 1)) and (not below or self._note(s, row, least, low, -1))

    def _note(self, s: int, row: _Doubles | _Balls, least: int, last: int, side: int) -> bool:
        """Those of the row that lie beyond `last` on one side."""
        outer = row.step(last - least, last + side - least)
        if outer is None:
            return False
        step, first = outer
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
