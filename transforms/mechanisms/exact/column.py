"""A vector of counts, looked at by as little sorting as a draw needs.

A `Tally` says how many items have each key, in one pass. Keys cover one count or *many*; what lies within one of many
is looked at only where a draw asks, by sorting the few items there.

Example: counts 5, 3,000, 3,001, 2**40, of which 3,000 and 3,001 share a key. How many items have 3,001 or more? The
table says one of a larger key, three with those of this key; the two items of the key are looked at, and the answer is
two. For 3,000, the least count of its key, and for all counts below 1,024 the table answers.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.tally import Tally

__all__ = ["Column"]

Indices = NDArray[np.int64]

_SEPARATELY = 4  # keys whose items are looked for one after the other
_CROWDED = 32


class Column:
    """Counts >= 0, shape (d,), int64, d >= 1. *Ranks* go by decreasing count, and by index among equal ones.

    Cost: one pass to make, then one for every call that has to look at items; of memory what its `Tally` takes.
    """

    def __init__(self, vector: Indices) -> None:
        self.vector, self.tally = vector, Tally(vector)
        self._keys = np.flatnonzero(self.tally.table > 0)  # those that items have
        self._ends = np.cumsum(self.tally.table[self._keys[::-1]])
        self._from_least = np.append(self._ends[::-1], 0)  # how many items have each of these keys or more, then 0
        self._head = np.zeros(0, np.int64)  # the largest counts in decreasing order, all of those from _down_to on
        self._down_to = len(self.tally.table)  # a key
        self._items = np.zeros(0, np.int64)  # of the keys that were opened, each by rank
        self._starts = np.full(len(self.tally.table), -1)  # of each key among them

    @property
    def own(self) -> tuple[Indices, Indices]:
        """The counts that have keys of their own, in decreasing order, and how many items have each."""
        counts = self._keys[: self._keys.searchsorted(self.tally.own)][::-1]
        return counts, self.tally.table[counts]

    @cached_property
    def largest(self) -> int:
        """The largest count."""
        return int(self.top(1)[0])

    @cached_property
    def smallest(self) -> int:
        """The smallest count."""
        return int(self.counts_at(np.array([len(self.vector) - 1]))[0])

    def head(self, least: int) -> Indices:
        """All counts that are `least` or more, and have no key of their own, in decreasing order."""
        least = max(least, self.tally.own)
        key = int(self.tally.of(np.array([least]))[0])
        if key < self._down_to:
            if len(self._head):  # far enough not to be asked for a little more many times
                key = min(key, self._key_at(min(2 * len(self._head), len(self.vector) - 1)))
            self._down_to = max(key, self.tally.own)
            self._head = np.sort(self.vector[self.tally.items_from(self._down_to)])[::-1]
        return self._head[: len(self._head) - int(np.searchsorted(self._head[::-1], least))]

    def top(self, k: int) -> Indices:
        """The k largest counts in decreasing order, shape (k,)."""
        key, further = self._keys_at(np.array([k, min(4 * k + 64, len(self.vector))]) - 1).tolist()
        # Those who could replace them are close below.
        self.head(self.tally.least(further))
        head = self.head(self.tally.least(key))
        if key >= self.tally.own:
            return head[:k]
        counts = self._keys[self._keys.searchsorted(key) : self._keys.searchsorted(self.tally.own)][::-1]
        return np.concatenate((head, np.repeat(counts, np.minimum(self.tally.table[counts], k))))[:k]

    def at_least(self, counts: Indices) -> Indices:
        """How many items have each of the given counts or more, same shape."""
        counts = np.maximum(counts, 0)
        keys = self.tally.of(counts)
        known = self._at_least(keys)
        inside = (keys >= self.tally.own) & (keys < len(self.tally.table))
        inside[inside] = self.tally.of(counts[inside] - 1) == keys[inside]
        if inside.any():
            least = counts[inside]
            head = self.head(int(least.min()))
            known[inside] = len(head) - np.searchsorted(head[::-1], least)
        return known

    def counts_at(self, ranks: Indices) -> Indices:
        """The counts at ranks, shape (n,)."""
        counts = self._keys_at(ranks)
        many = counts >= self.tally.own
        if not many.any():
            return counts
        near = many & (ranks < len(self._head))
        deep = np.flatnonzero(many & ~near)
        if len(deep):
            counts[deep] = self.vector[self._members(counts[deep], ranks[deep])]
        counts[near] = self._head[ranks[near]]
        return counts

    def items_at(self, ranks: Indices) -> Indices:
        """The items at distinct ranks, int64, same shape."""
        return self._members(self._keys_at(ranks), ranks)

    def _at_least(self, keys: Indices) -> Indices:
        """How many items have each of the keys or a larger one."""
        return self._from_least[self._keys.searchsorted(keys)]

    def _keys_at(self, ranks: Indices) -> Indices:
        return self._keys[len(self._keys) - 1 - self._ends.searchsorted(ranks, "right")]

    def _key_at(self, rank: int) -> int:
        return int(self._keys_at(np.array([rank]))[0])

    def _members(self, keys: Indices, ranks: Indices) -> Indices:
        """The items at ranks, whose keys are given."""
        offsets = ranks - self._at_least(keys + 1)
        # Few keys have that many items, of which few are wanted: all others are found at once.
        crowded = (_CROWDED * self.tally.table[keys] > len(self.vector)) & (keys < self.tally.own)
        if self.tally.keys is None:  # each is looked for in one part of the vector
            crowded = keys < self.tally.own
        if not crowded.any():
            return self._opened(keys, offsets)
        items = np.empty(len(ranks), np.int64)
        rest = np.flatnonzero(~crowded)
        if len(rest):
            items[rest] = self._opened(keys[rest], offsets[rest])
        for key in set(keys[crowded].tolist()):
            here = np.flatnonzero(keys == key)
            items[here] = self.tally.item_numbers(key, offsets[here])
        return items

    def _opened(self, keys: Indices, numbers: Indices) -> Indices:
        """Those numbered so, by rank, among the items of each key."""
        starts = self._starts[keys]
        if (starts < 0).any():
            self._open(np.unique(keys[starts < 0])[::-1])
            starts = self._starts[keys]
        return self._items[starts + numbers]

    def _open(self, keys: Indices) -> None:
        """Find the items of some keys, which fall."""
        items = self._found(keys)
        sizes = self.tally.table[keys]
        many = int(sizes[keys >= self.tally.own].sum())
        if many:
            items[:many] = self._by_count(items[:many])
        self._starts[keys] = len(self._items) + np.cumsum(sizes) - sizes
        self._items = np.concatenate((self._items, items))

    def _found(self, keys: Indices) -> Indices:
        """The items of some keys, which fall: one key after the other, and each by index."""
        tally = self.tally
        if tally.keys is not None and len(keys) <= _SEPARATELY:
            return np.concatenate([np.flatnonzero(tally.keys == key) for key in keys.tolist()])
        codes = np.zeros(len(tally.table), np.uint16)
        codes[keys] = 1 + np.arange(len(keys))
        lowest = int(keys[-1])
        if 32 * int(self._at_least(keys[-1:])[0]) <= len(self.vector):
            items = tally.items_from(lowest)
            kinds = codes.take(tally.at(items))
            items, kinds = items[kinds > 0], kinds[kinds > 0]
        else:
            items, kinds = tally.items_marked(codes)
        return items[np.argsort(kinds, kind="stable")]  # a radix sort

    def _by_count(self, items: Indices) -> Indices:
        """Items in decreasing order of their counts, equal ones as they come."""
        less = self.largest - self.vector[items]
        if (less[1:] >= less[:-1]).all():
            return items  # each key has one count
        digits = len(items).bit_length()
        if int(less.max()) >> (63 - digits):
            return items[np.argsort(less, kind="stable")]
        less <<= digits  # a sort of numbers takes a fraction of what one of places does
        less |= np.arange(len(items))
        less.sort()
        return items[less & ((1 << digits) - 1)]
