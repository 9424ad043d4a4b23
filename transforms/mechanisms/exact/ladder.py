"""How many items have a count or more, for many look-ups among the largest counts."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.histogram import Histogram

__all__ = ["Ladder"]

Indices = NDArray[np.int64]

_TABLE = 1 << 17
_FEW = 1 << 12


class Ladder:
    """The counts of a histogram from `least` on, >= 0. Look-ups below it answer as for `least`.

    Where the counts lie within 131,072 of each other a look-up is one in a table, otherwise a search.
    """

    def __init__(self, histogram: Histogram, least: int) -> None:
        self.least, self._histogram = least, histogram
        values, ends = histogram.down_to(least)
        self._values, self._ends = values, ends
        # One look-up at a time is several times as quick in a list.
        self._ends_listed = ends.tolist() if len(ends) <= _FEW else None
        self._rising, self._from_least = values[::-1].copy(), np.append(ends[::-1], 0)
        largest = int(values[0]) if len(values) else least - 1
        self._table: Indices | None = None
        if largest - least < _TABLE:
            self._table = np.repeat(self._from_least, np.diff(self._rising, prepend=least - 1, append=largest + 1))

    def at_least(self, counts: Indices) -> Indices:
        """How many items have each of the given counts or more, same shape; no count is above the largest."""
        if self._table is None:
            return self._from_least[np.searchsorted(self._rising, counts)]
        return self._table.take(counts - self.least, mode="clip")

    def count_at(self, rank: int) -> int:
        """The count at a rank, of any item."""
        listed = self._ends_listed
        place = int(self._ends.searchsorted(rank, "right")) if listed is None else bisect_right(listed, rank)
        if place == len(self._ends):
            return int(self._histogram.counts_at(np.array([rank]))[0])
        return int(self._values[place])
