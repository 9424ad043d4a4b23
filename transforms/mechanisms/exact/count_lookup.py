"""How many items have a count or more, for many look-ups among the largest counts."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.histogram import Histogram

__all__ = ["CountLookup"]

Indices = NDArray[np.int64]

_TABLE = 1 << 17
_FEW = 1 << 12


class CountLookup:
    """The counts of a histogram from `least` on, >= 0. Look-ups below it answer as for `least`.

    A look-up within 131,072 of `least` is one in a table, above that a search among the counts there, mostly few.
    """

    def __init__(self, histogram: Histogram, least: int) -> None:
        self.least, self._histogram = least, histogram
        values, ends = histogram.down_to(least)
        self._values, self._ends = values, ends
        # One look-up at a time is several times as quick in a list.
        self._listed = (values.tolist(), ends.tolist()) if len(ends) <= _FEW else None

    @cached_property
    def items(self) -> int:
        """How many items have `least` or more."""
        return int(self._ends[-1]) if len(self._ends) else 0

    @cached_property
    def _high(self) -> tuple[Indices, Indices]:
        """The counts beyond the table, rising, and how many items have each or more; then 0."""
        low = len(self._values) - int(self._values[::-1].searchsorted(self.least + _TABLE))
        return self._values[:low][::-1].copy(), np.append(self._ends[:low][::-1], 0)

    @cached_property
    def _table(self) -> NDArray[Any]:
        """How many items have `least` or more, one more than that, and so on."""
        rising = self._values[::-1]
        largest = int(rising[-1]) if len(rising) else self.least - 1
        last = min(largest, self.least + _TABLE - 1)
        low = int(rising.searchsorted(last, "right"))
        known = np.append(self._ends[::-1], 0)[: low + 1]
        if self._histogram.items < 2**31:
            known = known.astype(np.int32)  # twice as many of which the processor keeps at hand
        return np.repeat(known, np.diff(rising[:low], prepend=self.least - 1, append=last + 1))

    def at_least(self, counts: Indices) -> NDArray[Any]:
        """How many items have each of the given counts or more, same shape, (n, m), n and m at least 1.

        No count is above the largest, each row has none above the one before, and all rows rise and fall alike.
        """
        end = self.least + _TABLE
        span = counts[:, [int(counts[0].argmin()), int(counts[0].argmax())]]
        high = int(np.count_nonzero(span[:, 1] >= end))
        if not high:
            return self._table.take(counts - self.least, mode="clip")
        numbers = np.empty(counts.shape, self._table.dtype)
        numbers[high:] = self._table.take(counts[high:] - self.least, mode="clip")
        # Where counts are far apart most rows are the same all along.
        most, fewest = self._searched(span[:high]).T
        numbers[:high] = fewest[:, None]
        mixed = np.flatnonzero((most != fewest) | (span[:high, 0] < end))
        if len(mixed):
            asked = counts[mixed]
            low = self._table.take(asked - self.least, mode="clip")
            numbers[mixed] = np.where(asked < end, low, self._searched(asked))
        return numbers

    def _searched(self, counts: Indices) -> Indices:
        """The same for counts beyond the table."""
        rising, ends = self._high
        return ends.take(rising.searchsorted(counts))

    def count_at(self, rank: int) -> int:
        """The count at a rank, of any item."""
        if rank >= self.items:
            return int(self._histogram.counts_at(np.array([rank]))[0])
        if self._listed is not None:
            values, ends = self._listed
            return values[bisect_right(ends, rank)]
        return int(self._values[self._ends.searchsorted(rank, "right")])
