"""Items whose counts lie near each other, counted but not sorted.

Sorting many items to name a few takes some times what counting them does, and as much again as one look for those few.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Stretch"]

Indices = NDArray[np.int64]

_MANY = 2048  # items from which on it pays
_SPREAD = 8  # of the counts, for each item


class Stretch:
    """Items, rising, and their counts, shape (n,) both.

    Attributes:
        counts, sizes: the different counts, falling, and how many items have each.
    """

    def __init__(self, items: Indices, counts: Indices) -> None:
        self._items, self._low = items, int(counts.min())
        self._above = counts - self._low
        sizes = np.bincount(self._above)
        there = np.flatnonzero(sizes > 0)[::-1]
        self.counts, self.sizes = there + self._low, sizes[there]

    @staticmethod
    def suits(counts: Indices) -> bool:
        """Whether to count them rather than to sort them."""
        return len(counts) >= _MANY and int(counts.max()) - int(counts.min()) < _SPREAD * len(counts)

    def named(self, counts: Indices, numbers: Indices) -> Indices:
        """The items of these counts that are numbered so among those of the same count, by index; shape (n,)."""
        wanted, kinds = np.unique(counts, return_inverse=True)
        kind = np.uint16 if len(wanted) < 2**16 else np.int64  # of those numpy sorts by counting them
        codes: NDArray[Any] = np.zeros(int(self.counts[0]) - self._low + 1, kind)
        codes[wanted - self._low] = 1 + np.arange(len(wanted))
        marks = codes.take(self._above)
        found = np.flatnonzero(marks > 0)
        found_kinds = marks.take(found) - 1
        by_kind = self._items.take(found[np.argsort(found_kinds, kind="stable")])
        ends = np.cumsum(np.bincount(found_kinds, minlength=len(wanted)))
        return by_kind[np.append(0, ends)[kinds] + numbers]
