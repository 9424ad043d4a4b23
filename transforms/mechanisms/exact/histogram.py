"""The different counts and how many items have each: all that a mechanism over a public domain looks at.

Every mechanism here treats items alike, so a draw can be made from the histogram and its items be named afterwards. A
*rank* stands for (value, number within the value): ranks go from 0 through the items of the largest count, then through
those of the next one. Within a value the items are numbered by index, which the law does not mind: given the values
drawn, which items of a value come, and in which order, is uniform.

N pairs of a user and an item have at most sqrt(2 N) + 1 different counts above 0, as distinct counts sum to at most N.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from private_topk.transforms.errors import InvalidArgument

Indices = NDArray[np.int64]
_COUNTED = 1 << 16  # counts below it are counted in a table and not sorted
_MAX_LISTED = 1 << 12
_LARGE = 1 << 52  # counts below it are doubles as they are
_DIGITS = 10  # binary digits, after the first one, that a rounded count keeps


def check_counts(counts: ArrayLike, domain: str = "public") -> NDArray[np.int64]:
    """The counts as int64 of shape (d,), or a refusal. Never shows a count. Only an unknown domain may be empty.

    Raises:
        InvalidArgument: they are not of one dimension, none, negative or 2**63 and more.
        TypeError: they are no integers.
    """
    array = np.asarray(counts)
    if array.shape == (0,) and domain == "unknown":
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.size == 0:
        raise InvalidArgument("counts", f"must be one-dimensional and hold at least one item, got shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"counts must be integers, got dtype {array.dtype}: cast them if they are whole numbers")
    if array.dtype.kind == "i" and array.min() < 0:
        raise InvalidArgument("counts", "must be at least 0", "a negative count was given")
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise InvalidArgument("counts", "must be below 2**63")
    return array.astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Different counts in decreasing order, int64, and how many items have each, at least 1; shape (D,) both."""

    values: Indices
    sizes: Indices

    def __post_init__(self) -> None:
        values, sizes = (np.asarray(a) for a in (self.values, self.sizes))
        if values.ndim != 1 or values.shape != sizes.shape or not len(values):
            raise InvalidArgument(
                "histogram", f"must have one size for each value, got shapes {values.shape}, {sizes.shape}"
            )
        if values.dtype.kind not in "iu" or sizes.dtype.kind not in "iu":
            raise TypeError(f"histogram must hold integers, got {values.dtype} and {sizes.dtype}")
        object.__setattr__(self, "values", values.astype(np.int64, copy=False))
        object.__setattr__(self, "sizes", sizes.astype(np.int64, copy=False))
        if self.values[-1] < 0 or (self.values[1:] >= self.values[:-1]).any() or (self.sizes < 1).any():
            raise InvalidArgument("histogram", "must have decreasing values of at least 0 and sizes of at least 1")

    @classmethod
    def of(cls, counts: ArrayLike) -> Histogram:
        """The histogram of counts >= 0, shape (d,), of any integers below 2**63, d >= 1.

        Cost: one pass over counts that are hardly larger than their number, a sort of others.

        Raises:
            InvalidArgument: a count is negative or 2**63 and more, or there is none.
            TypeError: they are no integers.
        """
        array = check_counts(counts)
        if array.max() < max(_COUNTED, 4 * len(array)):
            sizes = np.bincount(array)
            values = np.flatnonzero(sizes)
            sizes = sizes[values]
        else:
            values, sizes = np.unique(array, return_counts=True)
        return cls(values[::-1], sizes[::-1])

    @cached_property
    def ends(self) -> Indices:
        """How many items have each value or a larger one, shape (D,)."""
        return np.cumsum(self.sizes)

    @property
    def items(self) -> int:
        """d: how many items there are."""
        return int(self.ends[-1])

    @property
    def largest(self) -> int:
        return int(self.values[0])

    @property
    def smallest(self) -> int:
        return int(self.values[-1])

    @cached_property
    def _rising(self) -> Indices:
        return self.values[::-1].copy()

    @cached_property
    def _from_least(self) -> Indices:
        """How many items have the j-th least value or more; then 0."""
        return np.append(self.ends[::-1], 0)

    def top(self, k: int) -> Indices:
        """The k largest counts in decreasing order, shape (k,)."""
        last = int(np.searchsorted(self.ends, k)) + 1
        return np.repeat(self.values[:last], np.minimum(self.sizes[:last], k))[:k]

    def bottom(self, k: int) -> Indices:
        """The k smallest counts in decreasing order, shape (k,)."""
        return self.counts_at(np.arange(self.items - k, self.items))

    def counts(self) -> Indices:
        """All counts in decreasing order, shape (d,): the count at every rank."""
        return np.repeat(self.values, self.sizes)

    def counts_at(self, ranks: Indices) -> Indices:
        """The counts at ranks, same shape."""
        return self.values[self.places(ranks)]

    def down_to(self, least: int) -> tuple[Indices, Indices]:
        """The values that are `least` or more, in decreasing order, and how many items have each or a larger one."""
        last = int(self._rising.searchsorted(least))
        return self.values[: len(self.values) - last], self.ends[: len(self.values) - last]

    def at_least(self, counts: Indices) -> Indices:
        """How many items have each of the given counts or more, same shape."""
        return self._from_least[np.searchsorted(self._rising, counts, "left")]

    def places(self, ranks: Indices) -> Indices:
        """The places of their values, same shape."""
        return np.searchsorted(self.ends, ranks, "right")


@dataclass(frozen=True, eq=False)
class IndexedCounts:
    """A vector of counts with its histogram, from which the items at any ranks can be named."""

    vector: Indices
    histogram: Histogram

    @classmethod
    def of(cls, counts: ArrayLike) -> IndexedCounts:
        """Count the counts, shape (d,), d >= 1. Cost and errors: as for `Histogram.of`."""
        return cls(check_counts(counts), Histogram.of(counts))

    def items(self, ranks: Indices) -> Indices:
        """The items at distinct ranks, int64, same shape: equal counts go by index.

        Cost: one pass, and a sort of the items down to the least of these counts.
        """
        if not len(ranks):
            return np.zeros(0, np.int64)
        near = np.flatnonzero(self.vector >= self.histogram.counts_at(ranks).min())
        below = self.histogram.largest - self.vector[near]
        below = below.astype(np.min_scalar_type(int(below.max())))  # 16 bits and fewer numpy sorts by digits
        return near[np.argsort(below, kind="stable")][ranks]


class CountLookup:
    """The counts of a histogram at one rank after the other, those from `least` on at hand."""

    def __init__(self, histogram: Histogram, least: int) -> None:
        self.least, self._histogram = least, histogram
        values, ends = histogram.down_to(least)
        self._values, self._ends = values, ends
        # One look-up at a time is several times as quick in a list.
        self._listed = (values.tolist(), ends.tolist()) if len(ends) <= _MAX_LISTED else None

    @cached_property
    def items(self) -> int:
        """How many items have `least` or more."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def count_at(self, rank: int) -> int:
        """The count at a rank, of any item."""
        if rank >= self.items:
            return int(self._histogram.counts_at(np.array([rank]))[0])
        if self._listed is not None:
            values, ends = self._listed
            return values[bisect_right(ends, rank)]
        return int(self._values[self._ends.searchsorted(rank, "right")])


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
