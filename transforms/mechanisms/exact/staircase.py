"""Sets of ranks between two staircases: how many there are, and a uniform one.

Example: pairs j_1 < j_2 with j_1 <= 2 and j_2 <= 4. The distinct ends 2 and 4 make the segments {1, 2} and {3, 4}, each
with weights 1 + 2x + x**2: one way to choose none, two to choose one, one to choose both. After the first segment at
least one must be chosen (j_1 <= 2), which leaves 2x + x**2; times the second segment's weights the coefficient of x**2
is 2 * 2 + 1 * 1 = 5: all pairs but {3, 4}. A uniform pair walks back: of the 5, the last segment holds one member in 4
and none in 1. With the inner staircase (1, 3), sets that keep to j_1 <= 1 and j_2 <= 3 are left out: {1, 2} and {1, 3}
are clean to the end; {1, 4} is clean after rank 1 and dirty from its second member on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from flint import arb, arb_poly, ctx
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.banded_staircase import number_in_band, row_of_binomials
from private_topk.transforms.mechanisms.exact.reals import Real, precision

__all__ = ["Segment", "SetsBetween"]

_PRECISION = 96
_FEW = 75  # members, for which a band is about as wide as all


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

    Args:
        outer, inner: rising staircases, shape (k,), ranks from 1, inner_i <= outer_i; without `inner` all sets under
            `outer` are meant.
    """

    def __init__(self, outer: NDArray[np.int64], inner: NDArray[np.int64] | None = None) -> None:
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
        if self._all and self._k > _FEW and ctx.prec <= _PRECISION:
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
