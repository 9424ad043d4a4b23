"""The different counts and how many items have each: all that a mechanism over a public domain looks at.

Every mechanism here treats items alike, so a draw can be made from the histogram and its items be named afterwards. A
*rank* stands for (value, number within the value): ranks go from 0 through the items of the largest count, then through
those of the next one. Within a value the items are numbered by index, which the law does not mind: given the values
drawn, which items of a value come, and in which order, is uniform.

N pairs of a user and an item have at most sqrt(2 N) + 1 different counts above 0, as distinct counts sum to at most N.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms.exact.counts import check_counts

__all__ = ["Histogram", "Named", "Picks"]

Indices = NDArray[np.int64]

_COUNTED = 1 << 16  # counts below it are counted in a table and not sorted


class Picks(NamedTuple):
    """Drawn items, as the count of each and its number among the items with that count, from 0; shape (n,) both."""

    values: Indices
    numbers: Indices


@dataclass(frozen=True, eq=False)
class Histogram:
    """Different counts in decreasing order, int64, and how many items have each, at least 1; shape (D,) both."""

    values: Indices
    sizes: Indices

    def __post_init__(self) -> None:
        values, sizes = (np.asarray(a) for a in (self.values, self.sizes))
        if values.ndim != 1 or values.shape != sizes.shape or not len(values):
            raise Refusal("histogram", f"must have one size for each value, got shapes {values.shape}, {sizes.shape}")
        if values.dtype.kind not in "iu" or sizes.dtype.kind not in "iu":
            raise TypeError(f"histogram must hold integers, got {values.dtype} and {sizes.dtype}")
        object.__setattr__(self, "values", values.astype(np.int64, copy=False))
        object.__setattr__(self, "sizes", sizes.astype(np.int64, copy=False))
        if self.values[-1] < 0 or (self.values[1:] >= self.values[:-1]).any() or (self.sizes < 1).any():
            raise Refusal("histogram", "must have decreasing values of at least 0 and sizes of at least 1")

    @classmethod
    def of(cls, counts: ArrayLike) -> Histogram:
        """The histogram of counts >= 0, shape (d,), of any integers below 2**63, d >= 1.

        Cost: one pass over counts that are hardly larger than their number, a sort of others.

        Raises:
            Refusal: a count is negative or 2**63 and more, or there is none.
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
        """The largest count."""
        return int(self.values[0])

    @property
    def smallest(self) -> int:
        """The smallest count."""
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

    def more_than(self, counts: Indices) -> Indices:
        """How many items have more than each of the given counts, same shape."""
        most = np.iinfo(np.int64).max
        return np.where(counts == most, 0, self.at_least(np.minimum(counts, most - 1) + 1))

    def places(self, ranks: Indices) -> Indices:
        """The places of their values, same shape."""
        return np.searchsorted(self.ends, ranks, "right")

    def picks(self, ranks: Indices) -> Picks:
        """What the ranks stand for."""
        values = self.counts_at(ranks)
        return Picks(values, ranks - self.more_than(values))


@dataclass(frozen=True, eq=False)
class Named:
    """A vector of counts with its histogram, from which the items at any ranks can be named."""

    vector: Indices
    histogram: Histogram

    @classmethod
    def of(cls, counts: ArrayLike) -> Named:
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
