"""A vector of counts, looked at by as little sorting as a draw needs.

Every count has a *key*: counts below 1,024 their own, larger ones their first eleven binary digits. Keys rise with
counts, and 54,273 of them reach to 2**63, so that one table says how many items have each key: in the same time
whatever the counts are. Keys cover one count or *many*; what lies within one of many is looked at only where a draw
asks, by sorting the few items there.

Example: counts 5, 3,000, 3,001, 2**40. The keys are 5, 2,012 for both of the next two, and 30,720. How many items have
3,001 or more? The table says one of a larger key, three with those of this key; the two items of the key are looked
at, and the answer is two. For 3,000, the least count of its key, and for all counts below 1,024 the table answers.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["OWN_KEYS", "Column", "keys_of", "rounded_down"]

Indices = NDArray[np.int64]

OWN_KEYS = 1 << 10
"""Counts below it have a key of their own."""

_DROPPED = 42  # binary digits of a double
_FIRST = (1023 + 10) << 10  # the ones kept of 1024.0
_KEPT = 1 << 18  # keys of vectors up to this length are kept, those of longer ones made again where they are needed
_SEPARATELY = 12  # keys whose items are looked for one after the other
_CHUNK = 1 << 16  # counts whose temporaries stay in the processor's cache


def keys_of(counts: Indices) -> Indices:
    """The keys of counts >= 0, same shape. Doubles round large counts, and still rise with them."""
    return _keys_into(np.empty(counts.shape), counts)


def _keys_into(doubles: NDArray[np.float64], counts: Indices) -> Indices:
    """The keys of counts, in the memory of as many doubles."""
    np.add(counts, float(OWN_KEYS), out=doubles)
    keys = doubles.view(np.int64)
    keys >>= _DROPPED
    keys -= _FIRST
    return keys


def rounded_down(counts: Indices) -> tuple[Indices, Indices]:
    """The least count of each one's key, and how many counts share the key; for counts below 2**53."""
    keys = keys_of(counts)
    shifts = keys >> 10
    return ((OWN_KEYS + (keys & (OWN_KEYS - 1))) << shifts) - OWN_KEYS, 1 << shifts


class Column:
    """Counts >= 0, shape (d,), int64, d >= 1. *Ranks* go by decreasing count, and by index among equal ones.

    Cost: one pass to make, then one for every call that has to look at items; 1 MB beside the counts, and a
    hundredth of them.
    """

    def __init__(self, vector: Indices) -> None:
        self.vector = vector
        self._keys = np.empty(len(vector), np.uint16) if len(vector) <= _KEPT else None
        self._tables: list[NDArray[np.uint32]] = []  # of each part, the keys of one count alone
        self._highest: list[int] = []  # key of each part
        doubles = np.empty(min(_CHUNK, len(vector)))
        table = np.zeros(1, np.int64)
        for start in range(0, len(vector), _CHUNK):
            part = vector[start : start + _CHUNK]
            keys = _keys_into(doubles[: len(part)], part)
            if self._keys is not None:
                self._keys[start : start + _CHUNK] = keys
            some = np.bincount(keys)
            self._highest.append(len(some) - 1)
            self._tables.append(some[:OWN_KEYS].astype(np.uint32))
            long, short = (some, table) if len(some) > len(table) else (table, some)
            long[: len(short)] += short
            table = long
        self.table = table
        self._head = np.zeros(0, np.int64)  # the largest counts in decreasing order, all of those from _down_to on
        self._down_to = len(table)  # a key
        self._items = np.zeros(0, np.int64)  # of the keys that were opened, each by rank
        self._starts = np.full(len(table), -1)  # of each key among them

    @cached_property
    def _above(self) -> Indices:
        """How many items have each key or a larger one, then 0."""
        above = np.zeros(len(self.table) + 1, np.int64)
        np.cumsum(self.table[::-1], out=above[-2::-1])
        return above

    @cached_property
    def _ends(self) -> Indices:
        return np.cumsum(self.table[::-1])

    @cached_property
    def largest(self) -> int:
        """The largest count."""
        return int(self.top(1)[0])

    @cached_property
    def smallest(self) -> int:
        """The smallest count."""
        return int(self.counts_at(np.array([len(self.vector) - 1]))[0])

    def head(self, least: int) -> Indices:
        """All counts that are `least` or more, and at least 1,024, in decreasing order."""
        least = max(least, OWN_KEYS)
        key = int(keys_of(np.array([least]))[0])
        if key < self._down_to:
            if len(self._head):  # far enough not to be asked for a little more many times
                key = min(key, self._key_at(min(2 * len(self._head), len(self.vector) - 1)))
            self._down_to = max(key, OWN_KEYS)
            self._head = np.sort(self.vector[self._from(self._down_to)])[::-1]
        return self._head[: len(self._head) - int(np.searchsorted(self._head[::-1], least))]

    def top(self, k: int) -> Indices:
        """The k largest counts in decreasing order, shape (k,)."""
        key, further = self._keys_at(np.array([k, min(4 * k + 64, len(self.vector))]) - 1).tolist()
        # Those who could replace them are close below.
        self.head(self._least(further))
        head = self.head(self._least(key))
        if key >= OWN_KEYS:
            return head[:k]
        counts = np.arange(min(OWN_KEYS, len(self.table)) - 1, key - 1, -1)
        return np.concatenate((head, np.repeat(counts, np.minimum(self.table[counts], k))))[:k]

    def at_least(self, counts: Indices) -> Indices:
        """How many items have each of the given counts or more, same shape."""
        counts = np.maximum(counts, 0)
        keys = keys_of(counts)
        known = self._above.take(keys, mode="clip")
        inside = (keys >= OWN_KEYS) & (keys < len(self.table))
        inside[inside] = keys_of(counts[inside] - 1) == keys[inside]
        if inside.any():
            least = counts[inside]
            head = self.head(int(least.min()))
            known[inside] = len(head) - np.searchsorted(head[::-1], least)
        return known

    def counts_at(self, ranks: Indices) -> Indices:
        """The counts at ranks, shape (n,)."""
        counts = self._keys_at(ranks)
        many = counts >= OWN_KEYS
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

    def _keys_at(self, ranks: Indices) -> Indices:
        return len(self.table) - 1 - np.searchsorted(self._ends, ranks, "right")

    def _key_at(self, rank: int) -> int:
        return int(self._keys_at(np.array([rank]))[0])

    def _least(self, key: int) -> int:
        """A count that is no larger than any of a key, and close to the least."""
        shift = key >> 10
        # From 2**53 on counts just below the least are rounded up to it.
        return ((OWN_KEYS + (key & (OWN_KEYS - 1))) << shift) - OWN_KEYS - (1 << shift >> 40)

    def _members(self, keys: Indices, ranks: Indices) -> Indices:
        """The items at ranks, whose keys are given."""
        offsets = ranks - self._above[keys + 1]
        # At most 20 keys have that many items, of which few are wanted: all others are found at once.
        crowded = (20 * self.table[keys] > len(self.vector)) & (keys < OWN_KEYS)
        if not crowded.any():
            return self._opened(keys, offsets)
        items = np.empty(len(ranks), np.int64)
        rest = np.flatnonzero(~crowded)
        if len(rest):
            items[rest] = self._opened(keys[rest], offsets[rest])
        for key in set(keys[crowded].tolist()):
            here = np.flatnonzero(keys == key)
            items[here] = self._with_count(key, offsets[here])
        return items

    def _with_count(self, count: int, numbers: Indices) -> Indices:
        """The items of a count below 1,024 that are numbered so, by index: only the parts that hold them are read."""
        if self._keys is not None:
            return np.flatnonzero(self._keys == count)[numbers]
        held = np.array([table[count] if count < len(table) else 0 for table in self._tables], np.int64)
        ends = np.cumsum(held)
        parts = np.searchsorted(ends, numbers, "right")
        items = np.empty(len(numbers), np.int64)
        for part in set(parts.tolist()):
            here, start = parts == part, part * _CHUNK
            within = np.flatnonzero(self.vector[start : start + _CHUNK] == count)
            items[here] = start + within[numbers[here] - (ends[part] - held[part])]
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
        sizes = self.table[keys]
        many = int(sizes[keys >= OWN_KEYS].sum())
        if many:
            items[:many] = self._by_count(items[:many])
        self._starts[keys] = len(self._items) + np.cumsum(sizes) - sizes
        self._items = np.concatenate((self._items, items))

    def _found(self, keys: Indices) -> Indices:
        """The items of some keys, which fall: one key after the other, and each by index."""
        if self._keys is not None and len(keys) <= _SEPARATELY:
            return np.concatenate([np.flatnonzero(self._keys == key) for key in keys.tolist()])
        codes = np.zeros(len(self.table), np.uint16)
        codes[keys] = 1 + np.arange(len(keys))
        items, kinds = self._coded(codes, int(keys[-1]))
        return items[np.argsort(kinds, kind="stable")]  # a radix sort

    def _coded(self, codes: NDArray[np.uint16], lowest: int) -> tuple[Indices, NDArray[np.uint16]]:
        """The items whose keys have a code, and these codes; all keys from `lowest` on."""
        if 8 * self._above[lowest] <= len(self.vector):
            items = self._from(lowest)
            kinds = codes[keys_of(self.vector[items]) if self._keys is None else self._keys[items]]
            return items[kinds > 0], kinds[kinds > 0]
        found, codes_found = [], []
        for number, start in enumerate(range(0, len(self.vector), _CHUNK)):
            if self._highest[number] >= lowest:
                code = codes.take(self._part_keys(start))
                here = np.flatnonzero(code > 0)  # of truth values: several times as quick
                found.append(start + here)
                codes_found.append(code[here])
        return np.concatenate(found), np.concatenate(codes_found)

    def _from(self, key: int) -> Indices:
        """The items with a key or a larger one, by index."""
        if self._keys is not None:
            return np.flatnonzero(self._keys >= key)
        found, least = [np.zeros(0, np.int64)], self._least(key) if key >= OWN_KEYS else key
        for number, start in enumerate(range(0, len(self.vector), _CHUNK)):
            if self._highest[number] >= key:
                found.append(start + np.flatnonzero(self.vector[start : start + _CHUNK] >= least))
        items = np.concatenate(found)
        return items[keys_of(self.vector[items]) >= key]  # `least` may be a little too low

    def _part_keys(self, start: int) -> NDArray[Any]:
        if self._keys is not None:
            return self._keys[start : start + _CHUNK]
        return keys_of(self.vector[start : start + _CHUNK])

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
