"""A vector of counts, looked at by as little sorting as a draw needs.

A `Tally` says how many items have each key, in one pass. Keys cover one count or *many*; what lies within one of many
is looked at only where a draw asks, by sorting the few items there.

Example: counts 5, 3,000, 3,001, 2**40, of which 3,000 and 3,001 share a key. How many items have 3,001 or more? The
table says one of a larger key, three with those of this key; the two items of the key are looked at, and the answer is
two. For 3,000, the least count of its key, and for all counts below 1,024 the table answers.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.orders import by_count, by_key
from private_topk.transforms.mechanisms.exact.stretch import Stretch
from private_topk.transforms.mechanisms.exact.tally import Tally, least_of

__all__ = ["Column"]

Indices = NDArray[np.int64]

_SEPARATELY = 8  # keys whose items are looked for one after the other
_CROWDED = 32
_WHOLE = 42 << 10  # keys of counts that are doubles as they are, below 2**52
# Looks that are made at least: so many, with one more for each ten items, or from a hundred items on for a hundred.
_FIRST, _LOOKS, _MORE, _PADDED = 4, 10, 100, 10
_SORTED = 2500  # items which it takes as long to sort as a look
_HEAD = 500  # counts next to the largest that are looked at together, as hardly any draw stays above them


class Column:
    """Counts >= 0, shape (d,), int64, d >= 1. *Ranks* go by decreasing count, and by index among equal ones.

    Cost: one pass to make, then one for every call that has to look at items; of memory what its `Tally` takes.
    """

    def __init__(self, vector: Indices) -> None:
        self.vector, self.tally = vector, Tally(vector)
        self._below = np.zeros(len(self.tally.table) + 1, np.int64)  # how many items have a smaller key than each
        np.cumsum(self.tally.table, out=self._below[1:])
        self._down_to = len(self.tally.table)  # a key: all counts from it on are in the head
        # Different ones, falling, how many items have each or more, and where those items begin; -1 where they are not
        # at hand, and in the stretches -2, -3, and so on.
        self._head = self._head_ends = self._head_starts = np.zeros(0, np.int64)
        self._items = np.zeros(0, np.int64)  # of the head and of the keys that were opened, each by rank
        self._open_keys = self._open_starts = np.zeros(0, np.int64)  # these keys, rising, and where each begins
        self._stretches: list[Stretch] = []
        self._single: dict[int, int | None] = {}  # what `_alone` has found

    def own(self, least: int) -> tuple[Indices, Indices]:
        """The counts from `least` on that have keys of their own, in decreasing order.

        And how many items have each of these or a larger one.
        """
        counts = self._present(least, self.tally.own)
        return counts, self._at_least(counts)

    def _present(self, first: int, end: int) -> Indices:
        """The keys from `first` up to, not including, `end` that items have, in decreasing order."""
        return first + np.flatnonzero(self.tally.table[first:end] > 0)[::-1]

    @property
    def largest(self) -> int:
        """The largest count."""
        return self.tally.largest

    @cached_property
    def smallest(self) -> int:
        """The smallest count."""
        return int(self.counts_at(np.array([len(self.vector) - 1]))[0])

    def head(self, least: int) -> tuple[Indices, Indices]:
        """The different counts that are `least` or more, and have no key of their own, in decreasing order.

        And how many items have each of these or a larger one.
        """
        least = max(least, self.tally.own)
        key = int(self.tally.of(np.array([least]))[0])
        if key < self._down_to:
            if len(self._head):  # far enough not to be asked for a little more many times
                key = min(key, self._key_at(min(2 * int(self._head_ends[-1]), len(self.vector) - 1)))
            known, whole = self._at_least(np.array([key, self.tally.own])).tolist()
            self._extend(key if key > self.tally.own and whole > 2 * known else self.tally.own)
        number = len(self._head) - int(np.searchsorted(self._head[::-1], least))
        return self._head[:number], self._head_ends[:number]

    def _extend(self, key: int) -> None:
        """Look at the items down to those of a key: at their counts, and which they are."""
        alone = self._alone(np.arange(key, min(self._down_to, len(self.tally.table))))
        counts, sizes, starts = self._counted(self.tally.items_between(key, self._down_to, list(alone)))
        if alone:
            counts = np.concatenate((counts, list(alone.values())))
            order = np.argsort(-counts)
            counts, starts = counts[order], np.concatenate((starts, np.full(len(alone), -1)))[order]
            sizes = np.concatenate((sizes, self.tally.table[list(alone)]))[order]
        before = int(self._head_ends[-1]) if len(self._head) else 0
        self._head = np.concatenate((self._head, counts))
        self._head_ends = np.concatenate((self._head_ends, before + np.cumsum(sizes)))
        self._head_starts = np.concatenate((self._head_starts, starts))
        self._down_to = key

    def _counted(self, items: Indices) -> tuple[Indices, Indices, Indices]:
        """The different counts of some items, falling, how many have each, and where these are found."""
        counts = self.vector.take(items)
        if Stretch.suits(counts):
            self.tally.looks += len(items) // (4 * _SORTED)
            self._stretches.append(stretch := Stretch(items, counts))
            return stretch.counts, stretch.sizes, np.full(len(stretch.counts), -1 - len(self._stretches))
        self.tally.looks += len(items) // _SORTED
        ranked = by_count(items, counts)
        counts = self.vector.take(ranked)
        starts = np.flatnonzero(np.diff(counts, prepend=-1))
        first = len(self._items)
        self._items = np.concatenate((self._items, ranked))
        return counts[starts], np.diff(starts, append=len(items)), first + starts

    def _alone(self, keys: Indices) -> dict[int, int]:
        """Those keys for many counts, of the crowded ones, of which the items have one count only, with that count."""
        if self.tally.keys is None:
            return {}
        for key in keys[self._crowded(keys) & (keys >= self.tally.own)].tolist():
            if key not in self._single:
                self._single[key] = self.tally.only_count(key)
        there = ((key, self._single.get(key)) for key in self._single)
        return {key: count for key, count in there if count is not None and keys[0] <= key <= keys[-1]}

    def _crowded(self, keys: Indices) -> NDArray[np.bool_]:
        """Few keys have that many items, of which few are wanted."""
        return _CROWDED * self.tally.table[keys] > len(self.vector)

    def top(self, k: int) -> Indices:
        """The k largest counts in decreasing order, shape (k,)."""
        key, further = self._keys_at(np.array([k, min(4 * k + _HEAD, len(self.vector))]) - 1).tolist()
        # Those who could replace them are close below.
        self.head(self.tally.least(further))
        counts, ends = self.head(self.tally.least(key))
        if key < self.tally.own:
            own, own_ends = self.own(key)
            counts, ends = np.concatenate((counts, own)), np.concatenate((ends, own_ends))
        last = int(ends.searchsorted(k)) + 1
        return np.repeat(counts[:last], np.diff(np.minimum(ends[:last], k), prepend=0))

    def at_least(self, counts: Indices) -> Indices:
        """How many items have each of the given counts or more, same shape."""
        counts = np.maximum(counts, 0)
        keys = self.tally.of(counts)
        known = self._at_least(keys)
        inside = (keys >= self.tally.own) & (keys < len(self.tally.table))
        inside[inside] = self.tally.of(counts[inside] - 1) == keys[inside]
        if inside.any():
            least = counts[inside]
            head, ends = self.head(int(least.min()))
            known[inside] = np.append(ends[::-1], 0)[np.searchsorted(head[::-1], least)]
        return known

    def counts_at(self, ranks: Indices) -> Indices:
        """The counts at ranks, shape (n,)."""
        counts = self._keys_at(ranks)
        many = counts >= self.tally.own
        if not many.any():
            return counts
        near = many & (ranks < (self._head_ends[-1] if len(self._head) else 0))
        deep = np.flatnonzero(many & ~near)
        if len(deep):
            counts[deep] = self.vector[self._members(counts[deep], ranks[deep])]
        counts[near] = self._head[self._head_ends.searchsorted(ranks[near], "right")]
        return counts

    def between(self, ranks: Indices) -> tuple[Indices, Indices]:
        """Counts between which those at ranks lie, without another look at the items; shape (n,) both."""
        counts = self._keys_at(ranks)
        many, near = counts >= self.tally.own, ranks < (self._head_ends[-1] if len(self._head) else 0)
        deep = np.flatnonzero(many & ~near)
        if not len(deep) or len(self.tally.table) > _WHOLE:
            counts = self.counts_at(ranks)
            return counts, counts
        counts[near] = self._head[self._head_ends.searchsorted(ranks[near], "right")]
        most = counts.copy()
        counts[deep], width = least_of(counts[deep])
        most[deep] = counts[deep] + width - 1
        return counts, most

    def items_at(self, ranks: Indices) -> Indices:
        """The items at distinct ranks, int64, same shape.

        Easy counts are looked at once more than need be: how long a draw takes must not tell much of them.
        """
        items = self._members(self._keys_at(ranks), ranks)
        self.tally.pad(min(_FIRST + len(ranks) // _PADDED, _LOOKS + len(ranks) // _MORE))
        return items

    def _at_least(self, keys: Indices) -> Indices:
        """How many items have each of the keys or a larger one."""
        return len(self.vector) - self._below.take(keys, mode="clip")

    def _keys_at(self, ranks: Indices) -> Indices:
        return self._below.searchsorted(len(self.vector) - 1 - ranks, "right") - 1

    def _key_at(self, rank: int) -> int:
        return int(self._keys_at(np.array([rank]))[0])

    def _members(self, keys: Indices, ranks: Indices) -> Indices:
        """The items at ranks, whose keys are given."""
        near = np.flatnonzero((keys >= self._down_to) & (keys >= self.tally.own))
        if not len(near):
            return self._deep_members(keys, ranks)
        places = self._head_ends.searchsorted(ranks[near], "right")
        starts, numbers = self._head_starts[places], ranks[near] - np.where(places > 0, self._head_ends[places - 1], 0)
        items, known = np.full(len(ranks), -1), starts >= 0
        items[near[known]] = self._items[starts[known] + numbers[known]]
        for start in set(starts[starts < -1].tolist()):
            self.tally.looks += 2
            here = np.flatnonzero(starts == start)
            items[near[here]] = self._stretches[-2 - start].named(self._head[places[here]], numbers[here])
        rest = items < 0
        if rest.any():
            items[rest] = self._deep_members(keys[rest], ranks[rest])
        return items

    def _deep_members(self, keys: Indices, ranks: Indices) -> Indices:
        """The same of items that are not at hand."""
        offsets = ranks - self._at_least(keys + 1)
        # Of a long vector each is looked for in one part, of others those that are crowded or hardly any.
        few = self.tally.keys is None or self._crowded(keys) | (len(np.unique(keys)) <= _SEPARATELY)
        crowded = few & (keys < self.tally.own)
        if (self._crowded(keys) & (keys >= self.tally.own)).any():
            crowded |= np.isin(keys, list(self._alone(np.arange(self.tally.own, len(self.tally.table)))))
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
        places = self._open_keys.searchsorted(keys)
        closed = np.append(self._open_keys, -1)[places] != keys
        if closed.any():
            self._open(np.unique(keys[closed])[::-1])
            places = self._open_keys.searchsorted(keys)
        return self._items[self._open_starts[places] + numbers]

    def _open(self, keys: Indices) -> None:
        """Find the items of some keys, which fall."""
        items, sizes = self._ranked(keys, *self._found(keys)), self.tally.table[keys]
        all_keys = np.concatenate((self._open_keys, keys))
        starts = np.concatenate((self._open_starts, len(self._items) + np.cumsum(sizes) - sizes))
        order = np.argsort(all_keys)
        self._open_keys, self._open_starts = all_keys[order], starts[order]
        self._items = np.concatenate((self._items, items))

    def _ranked(self, keys: Indices, items: Indices, kinds: Indices) -> Indices:
        """The items of some keys, which fall, by rank; `kinds` are the places of their keys, equal ones by index."""
        self.tally.looks += len(items) // _SORTED
        many = int(np.count_nonzero(keys >= self.tally.own))
        if many and keys[0] <= _WHOLE:
            ranked = by_key(items, self.vector.take(items), kinds, *least_of(keys))
            if ranked is not None:
                return ranked
        items = items[np.argsort(kinds.astype(np.uint16), kind="stable")]
        many = int(self.tally.table[keys[:many]].sum())
        items[:many] = by_count(items[:many], self.vector.take(items[:many]))
        return items

    def _found(self, keys: Indices) -> tuple[Indices, NDArray[Any]]:
        """The items of some keys, which fall, each by index, and the places of their keys."""
        tally = self.tally
        if tally.keys is not None and 2 * len(keys) <= _SEPARATELY:
            tally.looks += 2 * len(keys)
            items = np.concatenate([np.flatnonzero(tally.keys == key) for key in keys.tolist()])
            return items, np.repeat(np.arange(len(keys)), tally.table[keys])
        codes = np.zeros(len(tally.table), np.uint16)
        codes[keys] = 1 + np.arange(len(keys))
        lowest = int(keys[-1])
        if 32 * int(self._at_least(keys[-1:])[0]) <= len(self.vector):
            items = tally.items_from(lowest)
            tally.looks += 3
            kinds = codes.take(tally.at(items))
            items, kinds = items[kinds > 0], kinds[kinds > 0]
        else:
            items, kinds = tally.items_marked(codes)
        return items, kinds - 1
