"""The different counts and how many items have each: all that a mechanism over a public domain looks at.

Every mechanism here treats items alike, so a draw can be made from the histogram and its items be named afterwards. A
*rank* stands for (value, number within the value): ranks go from 0 through the items of the largest count, then through
those of the next one. Within a value the items are numbered by index, which the law does not mind: given the values
drawn, which items of a value come, and in which order, is uniform.

N pairs of a user and an item have at most sqrt(2 N) + 1 different counts above 0, as distinct counts sum to at most N.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.refusal import Refusal

__all__ = ["Histogram", "Named", "Picks"]

Indices = NDArray[np.int64]

_TABLE = 1 << 16  # counts below it are counted in a table, the others sorted
_CHUNK = 1 << 16  # counts that stay in the processor's cache between two looks


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
    def of(cls, counts: Indices) -> Histogram:
        """The histogram of counts >= 0, shape (d,), int64. Cost: one pass, and a sort of the counts from 65,536 up."""
        return Named.of(counts).histogram

    @classmethod
    def merged(cls, parts: Iterable[Histogram]) -> Histogram:
        """The histogram of the items of all parts together, in any order: each item stands in one part."""
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
        return np.repeat(self.values[:last], self.sizes[:last])[:k]

    def bottom(self, k: int) -> Indices:
        """The k smallest counts in decreasing order, shape (k,)."""
        first = int(self.places(np.array([self.items - k]))[0])
        return np.repeat(self.values[first:], self.sizes[first:])[-k:]

    def counts(self) -> Indices:
        """All counts in decreasing order, shape (d,): the count at every rank."""
        return np.repeat(self.values, self.sizes)

    def at_least(self, counts: Indices) -> Indices:
        """How many items have each of the given counts or more, same shape."""
        return self._from_least[np.searchsorted(self._rising, counts, "left")]

    def places(self, ranks: Indices) -> Indices:
        """The places of their values, same shape."""
        return np.searchsorted(self.ends, ranks, "right")

    def picks(self, ranks: Indices) -> Picks:
        """What the ranks stand for."""
        places = self.places(ranks)
        return Picks(self.values[places], ranks - (self.ends - self.sizes)[places])

    def ranks(self, picks: Picks) -> Indices:
        """The ranks that stand for picks."""
        places = len(self.values) - 1 - np.searchsorted(self._rising, picks.values)
        return (self.ends - self.sizes)[places] + picks.numbers


@dataclass(frozen=True, eq=False)
class Named:
    """A vector of counts with its histogram, from which the items at any ranks can be named.

    `large` holds the items whose count is no place in the table, in rank order.
    """

    vector: Indices
    histogram: Histogram
    large: Indices

    @classmethod
    def of(cls, counts: Indices) -> Named:
        """Count the counts. Cost: one pass over them; those from 65,536 up are sorted. Memory: 1 MB beside these."""
        table, above = np.zeros(1, np.int64), []
        for start in range(0, len(counts), _CHUNK):
            part = counts[start : start + _CHUNK]
            if int(part.max()) >= _TABLE:
                above.append(start + np.flatnonzero(part >= _TABLE))
                part = part[part < _TABLE]
            some = np.bincount(part, minlength=len(table))
            some[: len(table)] += table
            table = some
        small = np.flatnonzero(table)[::-1]
        if not above:
            return cls(counts, Histogram(small, table[small]), np.zeros(0, np.int64))
        large, values, sizes = _sorted(counts, np.concatenate(above))
        histogram = Histogram(np.concatenate([values, small]), np.concatenate([sizes, table[small]]))
        return cls(counts, histogram, large)

    def items(self, ranks: Indices) -> Indices:
        """The items at distinct ranks, int64, same shape. Cost: one pass over the counts, if any is below 65,536."""
        places = np.empty(len(ranks), np.int64)
        sorted_ones = ranks < len(self.large)
        places[sorted_ones] = self.large[ranks[sorted_ones]]
        if not sorted_ones.all():
            places[~sorted_ones] = self._find(*self.histogram.picks(ranks[~sorted_ones]))
        return places

    def _find(self, values: Indices, numbers: Indices) -> Indices:
        """The items with the given counts, all below the table's end, by their numbers."""
        wanted, slots = np.unique(values, return_inverse=True)
        sizes = self.histogram.sizes[len(self.histogram.values) - 1 - np.searchsorted(self.histogram._rising, wanted)]
        # At most 64 values have that many items: each of them is looked for by itself, all others in one sort.
        crowded = 64 * sizes > len(self.vector)
        finder = _Finder(wanted, crowded, slots.reshape(-1), numbers)
        for start in range(0, len(self.vector), _CHUNK):
            finder.look(self.vector[start : start + _CHUNK], start)
        return finder.items


class _Finder:
    """Looks through the counts, part by part, for the items of wanted values with given numbers."""

    def __init__(self, wanted: Indices, crowded: NDArray[np.bool_], slots: Indices, numbers: Indices) -> None:
        self.items = np.empty(len(slots), np.int64)
        self._crowded = [(int(wanted[slot]), np.flatnonzero(slots == slot)) for slot in np.flatnonzero(crowded)]
        self._met = np.zeros(len(self._crowded), np.int64)
        self._numbers = numbers
        others = wanted[~crowded]
        codes = np.cumsum(~crowded)  # from 1; 0 says that a count is not wanted
        narrow = np.uint16 if len(others) < 2**16 else np.uint32
        self._codes = np.zeros(int(others[-1]) + 2 if len(others) else 0, narrow)
        self._least = int(others[0]) if len(others) else 0
        self._codes[others] = codes[~crowded]
        self._rest = np.flatnonzero(~crowded[slots])
        self._kinds, self._left = codes[slots[self._rest]], numbers[self._rest].copy()
        self._edges = np.arange(1, len(others) + 2)

    def look(self, part: Indices, start: int) -> None:
        for place, (value, picks) in enumerate(self._crowded):
            here = part == value
            met = int(self._met[place])
            self._met[place] += np.count_nonzero(here)
            inside = picks[(self._numbers[picks] >= met) & (self._numbers[picks] < self._met[place])]
            if len(inside):
                self.items[inside] = start + np.flatnonzero(here)[self._numbers[inside] - met]
        if len(self._rest):
            self._look_for_others(part, start)

    def _look_for_others(self, part: Indices, start: int) -> None:
        high = part >= self._least
        if 8 * np.count_nonzero(high) < len(part):
            # Most counts are too small to have been drawn, and comparing is cheaper than looking up.
            some = np.flatnonzero(high)
            code = self._codes.take(part[some], mode="clip")
            found = np.flatnonzero(code)
            hits, kinds = some[found], code[found]
        else:
            code = self._codes.take(part, mode="clip")
            hits = np.flatnonzero(code)
            kinds = code[hits]
        if not len(hits):
            return
        order = np.argsort(kinds, kind="stable")  # a radix sort: by value, and by index among equal ones
        starts = np.searchsorted(kinds[order], self._edges)
        first, end = starts[self._kinds - 1], starts[self._kinds]
        # Numbers count on from part to part.
        inside = (self._left >= 0) & (self._left < end - first)
        self.items[self._rest[inside]] = start + hits[order[first[inside] + self._left[inside]]]
        self._left -= np.where(self._left >= 0, end - first, 0)


def _sorted(counts: Indices, items: Indices) -> tuple[Indices, Indices, Indices]:
    """Items by count from the largest, equal ones by index; the different counts, and how many have each.

    The sort is one of distinct keys, whatever the counts are: its time hardly depends on the data, and its answer not
    on the machine's sorting algorithm.
    """
    bits = (len(counts) - 1).bit_length()
    backwards = len(counts) - 1 - items
    values = counts[items]
    if int(values.max()) < 1 << (63 - bits):
        keys = np.sort(values << bits | backwards)[::-1]
        values = keys >> bits
    else:
        # Counts too large to share a word with an index: first replace each by its place among the distinct counts.
        distinct, codes = np.unique(values, return_inverse=True)
        keys = np.sort(codes.reshape(-1) << bits | backwards)[::-1]
        values = distinct[keys >> bits]
    starts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    sizes = np.diff(np.append(starts, len(values)))
    return len(counts) - 1 - (keys & ((1 << bits) - 1)), values[starts], sizes
