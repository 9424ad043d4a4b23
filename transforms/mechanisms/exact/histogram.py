"""The different counts and how many items have each: all that a mechanism over a public domain looks at.

Every mechanism here treats items alike, so a draw can be made from the histogram and its items be named afterwards. A
*rank* stands for (value, number within the value): ranks go from 0 through the items of the largest count, then through
those of the next one. Within a value the items are numbered by index, which the law does not mind: given the values
drawn, which items of a value come, and in which order, is uniform.

N pairs of a user and an item have at most sqrt(2 N) + 1 different counts above 0, as distinct counts sum to at most N.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from private_topk.transforms.mechanisms.exact.column import Column
from private_topk.transforms.mechanisms.exact.counts import check_counts
from private_topk.transforms.refusal import Refusal

__all__ = ["Histogram", "Named", "Picks"]

Indices = NDArray[np.int64]


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

        Cost: one pass, and where counts are 16,384 or more, and not below 32,768 of as many items, a sort of those from
        1,024 up.

        Raises:
            Refusal: a count is negative or 2**63 and more, or there is none.
            TypeError: they are no integers.
        """
        counted = Named.of(check_counts(counts, signs=False)).histogram
        return cls(counted.values, counted.sizes)

    @classmethod
    def merged(cls, parts: Iterable[Histogram]) -> Histogram:
        """The histogram of the items of all parts together, in any order: each item stands in one part.

        Cost: a sort of the parts' values. `shares` says what a pick of it is in the parts.
        """
        tables = list(parts)
        values, places = np.unique(-np.concatenate([table.values for table in tables]), return_inverse=True)
        sizes = np.zeros(len(values), np.int64)
        np.add.at(sizes, places.reshape(-1), np.concatenate([table.sizes for table in tables]))
        return cls(-values, sizes)

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

    def between(self, ranks: Indices) -> tuple[Indices, Indices]:
        """Counts between which those at ranks lie, as far as they are at hand; same shape both."""
        counts = self.counts_at(ranks)
        return counts, counts

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

    def ranks(self, picks: Picks) -> Indices:
        """The ranks that stand for picks."""
        return self.more_than(picks.values) + picks.numbers

    @classmethod
    def shares(cls, parts: Sequence[Histogram], picks: Picks) -> tuple[Indices, Picks]:
        """Which part each pick of the merged histogram lies in, and as what pick of that part, shape (n,) each.

        The items of one count are numbered through the parts in their order.
        """
        held = np.stack([part.at_least(picks.values) - part.more_than(picks.values) for part in parts])
        ends = np.cumsum(held, axis=0)
        places = (ends <= picks.numbers).sum(axis=0)
        before = (ends - held)[places, np.arange(len(places))]
        return places, Picks(picks.values, picks.numbers - before)


class _Counted(Histogram):
    """The histogram of a column, which says of it as much as is asked."""

    _column: Column

    def __init__(self, column: Column) -> None:
        self.__dict__["_column"] = column

    @cached_property
    def values(self) -> Indices:  # type: ignore[override]
        return self.down_to(0)[0]

    @cached_property
    def sizes(self) -> Indices:  # type: ignore[override]
        return np.diff(self.down_to(0)[1], prepend=0)

    @property
    def items(self) -> int:
        return len(self._column.vector)

    @property
    def largest(self) -> int:
        return self._column.largest

    @property
    def smallest(self) -> int:
        return self._column.smallest

    def top(self, k: int) -> Indices:
        return self._column.top(k)

    def at_least(self, counts: Indices) -> Indices:
        return self._column.at_least(counts)

    def counts_at(self, ranks: Indices) -> Indices:
        return self._column.counts_at(ranks)

    def between(self, ranks: Indices) -> tuple[Indices, Indices]:
        return self._column.between(ranks)

    def down_to(self, least: int) -> tuple[Indices, Indices]:
        (head, head_ends), (own, own_ends) = self._column.head(least), self._column.own(max(least, 0))
        return np.concatenate((head, own)), np.concatenate((head_ends, own_ends))


@dataclass(frozen=True, eq=False)
class Named:
    """A vector of counts with its histogram, from which the items at any ranks can be named.

    The histogram looks at the vector as far as it is asked, so that nothing is sorted that no draw needs.
    """

    vector: Indices
    histogram: Histogram
    _column: Column

    @classmethod
    def of(cls, counts: Indices) -> Named:
        """Count the counts, >= 0, shape (d,), int64, d >= 1.

        Cost: one pass over them. Memory beside these: 1 MB, and an eighth of a byte for each count of a long vector.

        Raises:
            Refusal: a count is negative.
        """
        column = Column(counts)
        return cls(counts, _Counted(column), column)

    def items(self, ranks: Indices) -> Indices:
        """The items at distinct ranks, int64, same shape: equal counts go by index. Cost: one pass over the counts."""
        return self._column.items_at(ranks)
