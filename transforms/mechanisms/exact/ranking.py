"""Ranks of items: by count from the largest, equal counts by index from the smallest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ranking", "rank"]


@dataclass(frozen=True)
class Ranking:
    """The items of one vector of counts in rank order, ranks from 0.

    Attributes:
        ascending: the counts in increasing order, shape (d,), int64: `ascending[d - 1 - r]` is the count at rank r.
        keys: shape (d,), int64, increasing; the low `bits` bits of `keys[d - 1 - r]` are d - 1 - (item at rank r).
    """

    ascending: NDArray[np.int64]
    keys: NDArray[np.int64]
    bits: int

    def top(self, k: int) -> NDArray[np.int64]:
        """The k largest counts in decreasing order, shape (k,)."""
        return self.ascending[: -k - 1 : -1]

    def items(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The items at the given ranks, same shape."""
        last = len(self.keys) - 1
        return last - (self.keys[last - ranks] & ((1 << self.bits) - 1))


def rank(counts: NDArray[np.int64]) -> Ranking:
    """Rank the items of counts >= 0, shape (d,), int64. Cost: one sort of d distinct 64-bit keys, or two.

    The keys are distinct whatever the counts are, so the time of the sort hardly depends on the data, and its answer
    not on the machine's sorting algorithm.
    """
    d = len(counts)
    bits = (d - 1).bit_length()
    backwards = np.arange(d - 1, -1, -1)
    if int(counts.max()) < 1 << (63 - bits):
        keys = np.sort(counts << bits | backwards)
        return Ranking(keys >> bits, keys, bits)
    # Counts too large to share a word with an index: first replace each by its place among the distinct counts.
    order = np.argsort(counts)
    ascending = counts[order]
    places = np.concatenate(([0], np.cumsum(ascending[1:] != ascending[:-1])))
    return Ranking(ascending, np.sort(places << bits | backwards[order]), bits)
