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

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["OWN_KEYS", "Column", "keys_of", "rounded_down"]

Indices = NDArray[np.int64]

OWN_KEYS = 1 << 10
"""Counts below it have a key of their own."""

_DROPPED = 42  # binary digits of a double
_FIRST = (1023 + 10) << 10  # the ones kept of 1024.0
_KEPT = 1 << 18  # keys of vectors up to this length are kept, those of longer ones made again where they are needed
_CHUNK = 1 << 16  # counts whose temporaries stay in the processor's cache


def keys_of(counts: Indices) -> Indices:
    """The keys of counts >= 0, same shape. Doubles round large counts, and still rise with them."""
    doubles = counts.astype(np.float64)
    doubles += OWN_KEYS
    keys = doubles.view(np.int64) >> _DROPPED
    keys -= _FIRST
    return keys


def rounded_down(counts: Indices) -> tuple[Indices, Indices]:
    """The least count of each one's key, and how many counts share the key; for counts below 2**53."""
    keys = keys_of(counts)
    shifts = keys >> 10
    return ((OWN_KEYS + (keys & (OWN_KEYS - 1))) << shifts) - OWN_KEYS, 1 << shifts


class Column:
    """Counts >= 0, shape (d,), int64, d >= 1. *Ranks* go by decreasing count, and by index among equal ones.

    Cost: one pass to make, then one for every call that has to look at items; 1 MB beside the counts.
    """

    def __init__(self, vector: Indices) -> None:
        self.vector = vector
        self._keys: list[NDArray[np.uint16]] | None = [] if len(vector) <= _KEPT else None
        table = np.zeros(1, np.int64)
        for _, part in self._parts():
            keys = keys_of(part)
            if self._keys is not None:
                self._keys.append(keys.astype(np.uint16))
            some = np.bincount(keys, minlength=len(table))
            some[: len(table)] += table
            table = some
        self.table = table
        self._head = np.zeros(0, np.int64)  # the largest counts in decreasing order, all of those from _down_to on
        self._down_to: int | None = None
        self._opened: dict[int, Indices] = {}

    @cached_property
    def _above(self) -> Indices:
        """How many items have each key or a larger one, then 0."""
        return np.append(np.cumsum(self.table[::-1])[::-1], 0)

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
        wanted = least = max(least, OWN_KEYS)
        if self._down_to is None or least < self._down_to:
            if len(self._head):  # far enough not to be asked for a little more many times
                rank = min(2 * len(self._head), len(self.vector) - 1)
                least = max(OWN_KEYS, min(least, self._least(self._key_at(rank))))
            found = [part[part >= least] for _, part in self._parts()]
            self._head = np.sort(np.concatenate(found))[::-1]
            self._down_to = least
        return self._head[: len(self._head) - int(np.searchsorted(self._head[::-1], wanted))]

    def top(self, k: int) -> Indices:
        """The k largest counts in decreasing order, shape (k,)."""
        key = self._key_at(k - 1)
        # Those who could replace them are close below.
        self.head(self._least(self._key_at(min(4 * k + 64, len(self.vector)) - 1)))
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
        near = many & (ranks < len(self._head))
        deep = np.flatnonzero(many & ~near)
        if len(deep):
            counts[deep] = self.vector[self._members(counts[deep], ranks[deep])]
        counts[near] = self._head[ranks[near]]
        return counts

    def items_at(self, ranks: Indices) -> Indices:
        """The items at distinct ranks, int64, same shape."""
        keys = self._keys_at(ranks)
        items = np.empty(len(ranks), np.int64)
        # At most 16 keys have that many items: each of them is looked for by itself, all others in one sort.
        crowded = (keys < OWN_KEYS) & (16 * self.table[keys] > len(self.vector))
        for key in np.unique(keys[crowded]).tolist():
            here = keys == key
            items[here] = self._items_of(key)[ranks[here] - self._above[key + 1]]
        items[~crowded] = self._members(keys[~crowded], ranks[~crowded])
        return items

    def _parts(self) -> Iterator[tuple[int, Indices]]:
        for start in range(0, len(self.vector), _CHUNK):
            yield start, self.vector[start : start + _CHUNK]

    def _keys_at(self, ranks: Indices) -> Indices:
        return len(self.table) - 1 - np.searchsorted(self._ends, ranks, "right")

    def _key_at(self, rank: int) -> int:
        return int(self._keys_at(np.array([rank]))[0])

    def _least(self, key: int) -> int:
        """A count that is no larger than any of a key, and close to the least."""
        shift = key >> 10
        # From 2**53 on counts just below the least are rounded up to it.
        return ((OWN_KEYS + (key & (OWN_KEYS - 1))) << shift) - OWN_KEYS - (1 << shift >> 40)

    def _items_of(self, key: int) -> Indices:
        """All items of a key that is one count, in order of index."""
        return np.concatenate([start + np.flatnonzero(part == key) for start, part in self._parts()])

    def _members(self, keys: Indices, ranks: Indices) -> Indices:
        """The items at ranks, whose keys are given."""
        self._open(keys)
        offsets = (ranks - self._above[keys + 1]).tolist()
        pairs = zip(keys.tolist(), offsets, strict=True)
        return np.fromiter((self._opened[key][offset] for key, offset in pairs), np.int64, len(ranks))

    def _open(self, keys: Indices) -> None:
        """Find the items of keys, by rank."""
        wanted = np.array([key for key in np.unique(keys).tolist() if key not in self._opened], np.int64)
        if not len(wanted):
            return
        codes = np.zeros(len(self.table), np.uint16)
        codes[wanted] = 1 + np.arange(len(wanted))
        found, kinds = [], []
        for place, (start, part) in enumerate(self._parts()):
            code = codes.take(keys_of(part) if self._keys is None else self._keys[place])
            here = np.flatnonzero(code)
            found.append(start + here)
            kinds.append(code[here])
        items = np.concatenate(found)
        items = items[np.argsort(np.concatenate(kinds), kind="stable")]  # a radix sort: by key, and by index within it
        for key, members in zip(wanted.tolist(), np.split(items, np.cumsum(self.table[wanted])[:-1]), strict=True):
            if key >= OWN_KEYS:
                members = members[np.argsort(-self.vector[members], kind="stable")]
            self._opened[key] = members
