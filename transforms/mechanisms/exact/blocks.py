"""Ranks cut into blocks of nearly equal counts, so that no draw takes longer for many different counts.

The items with more than the k-th largest count r are blocks by themselves, those with r are one block, and the items
below are cut at given distances from r. What is known of a block is how many items it has and a count that none of them
exceeds: a draw that proposes by this bound and accepts by the item's own count has the law of the counts themselves.

Example: counts 9, 7, 7, 4, 3, 0 and k = 2, cut at the distances 1 and 4. The blocks are {9}, {7, 7}, none for count 6,
{4, 3} with the bound 5, and {0} with the bound 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.histogram import Histogram

__all__ = ["Blocks", "even_cuts", "rising_cuts"]

Indices = NDArray[np.int64]

_LARGE = 1 << 52  # counts below it are doubles as they are
_DIGITS = 10  # binary digits, after the first one, that a rounded count keeps


@dataclass(frozen=True, eq=False)
class Blocks:
    """Consecutive ranks, shape (n,) each.

    Args:
        bounds: a count that no item of the block exceeds, and that those of the first `exact` blocks have.
        sizes: how many items a block has, at least 1.
        exact: the blocks of the k largest counts and of those that equal the k-th, which is the last of these.
    """

    bounds: Indices
    sizes: Indices
    exact: int

    @property
    def starts(self) -> Indices:
        """The first rank of each block, shape (n,)."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def least(self) -> int:
        """The k-th largest count."""
        return int(self.bounds[self.exact - 1])

    @classmethod
    def of(cls, histogram: Histogram, k: int, cuts: Sequence[int], rounded: bool = False) -> Blocks:
        """The blocks of a histogram.

        Args:
            cuts: distances below the k-th largest count, rising.
            rounded: whether to move a cut down to a count of few binary digits where that moves it little. Where it
                goes depends on the k-th largest count alone.
        """
        top = histogram.top(k)
        least = int(top[-1])
        above = top[: int(np.searchsorted(-top, -least))]
        edges = _edges(least, cuts, rounded)
        ends = histogram.at_least(np.append(least, edges))
        sizes = np.diff(ends, prepend=len(above))
        bounds = np.concatenate(([least, least - 1], edges[:-1] - 1))[: len(sizes)]
        there = sizes > 0
        return cls(
            np.concatenate((above, bounds[there])),
            np.concatenate((np.ones(len(above), np.int64), sizes[there])),
            len(above) + 1,
        )


def even_cuts(unit: Fraction, number: int, least: int) -> list[int]:
    """The first `number` multiples of a unit of counts, rounded up, as far as they do not exceed `least`."""
    number = min(number, int(least / unit) + 1)
    numerator, denominator = unit.numerator, unit.denominator
    return [-(-i * numerator // denominator) for i in range(1, number + 1)]


@lru_cache(maxsize=64)
def rising_cuts(first: Fraction, last: Fraction) -> tuple[int, ...]:
    """Distances from `first` to `last`, each about a sixteenth more than the one before."""
    cuts = [max(1, -(-first.numerator // first.denominator))]
    end = -(-last.numerator // last.denominator)  # whole numbers compare faster, and with it as with `last`
    while cuts[-1] < end:
        cuts.append(cuts[-1] + max(1, cuts[-1] // 16))
    return tuple(cuts)


def _edges(least: int, cuts: Sequence[int], rounded: bool) -> Indices:
    """The counts at which the blocks below `least` end, decreasing, 0 the last; none where `least` is 0."""
    if not least:
        return np.zeros(0, np.int64)
    inside = np.array([least - cut for cut in cuts if cut < least], np.int64)
    if rounded and least < _LARGE and len(inside):
        low, width = _rounded_down(inside)
        inside = np.where(4 * width <= -np.diff(inside, prepend=least), low, inside)
    inside = np.minimum.accumulate(np.append(inside, 0))
    return inside[np.diff(inside, prepend=least) < 0]


def _rounded_down(counts: Indices) -> tuple[Indices, Indices]:
    """Counts + 2**10 cut off after their first eleven binary digits, less 2**10, and how many counts become each."""
    raised = counts + (1 << _DIGITS)
    digits = np.frexp(raised.astype(np.float64))[1] - 1 - _DIGITS
    return ((raised >> digits) << digits) - (1 << _DIGITS), np.int64(1) << digits.astype(np.int64)
