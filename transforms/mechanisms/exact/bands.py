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

    None where what is left out cannot be shown to be less than one part in 2**45.

    Args:
        sizes, needs: of the segments, at least 1; needs rise; shape (m,) both.

    Cost: for each segment a product of rows of about 20 sqrt(k) and of some tens of numbers.
    """
    band = _Band(sizes, needs)
    k, row, least = int(needs[-1]), arb_poly([1]), 0
    for s, (low, high) in enumerate(band.rows()):
        row = row * row_of_binomials(int(sizes[s]), band.widest(s, high - least))
        if not band.leaves(s, row, least, low, high):
            return None
        row, least = row.truncate(high - least + 1).right_shift(low - least), low
    number = row[k - least]
    if not number > 0 or band.left_out() > float(number.log().lower()) - _LEFT_OUT:
        return None
    return number + arb(band.left_out()).exp() * arb(0.5, 0.5)


class _Band:
    """Which rows to count of each segment, and a bound on what that leaves out."""

    def __init__(self, sizes: Indices, needs: Indices) -> None:
        self._sizes, self._needs, self._k = sizes, needs, int(needs[-1])
        slopes = np.minimum(_slopes(np.cumsum(sizes), needs), _STEEPEST)
        self._means, self._variances = sizes * slopes, sizes * slopes * (1 - slopes)
        log_z = np.log(slopes) - np.log1p(-slopes)
        self._next_log_z = np.append(log_z[1:], log_z[-1])
        steps = needs * (self._next_log_z - log_z) - sizes * np.log1p(-slopes)
        self._ways = np.cumsum(np.append(-self._k * log_z[-1], steps[::-1]))[::-1]  # d_0, d_1, ...
        self._after = np.sum(sizes) - np.cumsum(sizes)  # ranks after each segment
        self._out: list[float] = []  # logarithms

    def rows(self) -> Iterator[tuple[int, int]]:
        """The least and the most members to count up to each segment."""
        sums, variances = np.cumsum(self._means), np.cumsum(self._variances)
        spread = np.sqrt(variances * (variances[-1] - variances) / max(variances[-1], 1e-9))
        low = np.maximum(self._needs, np.floor(sums - _DOWN[0] * spread - _DOWN[1]).astype(np.int64))
        high = np.minimum(self._k, np.ceil(sums + _UP[0] * spread + _UP[1]).astype(np.int64))
        high[-1] = self._k
        return zip(low.tolist(), np.maximum(low, high).tolist(), strict=True)

    def widest(self, s: int, most: int) -> int:
        """How many members of a segment to count with, at most."""
        size, variance = int(self._sizes[s]), float(self._variances[s])
        widest = min(size, int(self._means[s] + _ACROSS[0] * math.sqrt(variance)) + _ACROSS[1])
        if widest < min(size, most):
            # Bernstein's bound for a binomial number: of all paths, weighed by the z, so many have more members here.
            t = widest + 1 - float(self._means[s])
            self._out.append(float(self._ways[0]) - t * t / (2 * (variance + t / 3)))
        return min(widest, most)

    def leaves(self, s: int, row: arb_poly, least: int, low: int, high: int) -> bool:
        """Note what is left out of a row, which begins at `least`; False where there is no bound on it."""
        above = high < self._k and row.degree() > high - least
        below = low > max(least, int(self._needs[s]))
        return (not above or self._note(s, row, least, high, 1)) and (not below or self._note(s, row, least, low, -1))

    def _note(self, s: int, row: arb_poly, least: int, last: int, side: int) -> bool:
        """Those of the row that lie beyond `last` on one side."""
        inner, outer = row[last - least], row[last + side - least]
        if not inner > 0 or not outer > 0:
            return False
        step, first = float((outer / inner).log().upper()), float(outer.log().upper())
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
        n, m = int(self._after[s]), self._k - a
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
