"""How many items have each count, or each of 54,273 keys that stand for ranges of counts, in one pass.

Every count has a *key*: counts below 1,024 their own, larger ones their first eleven binary digits. Keys rise with
counts and reach to 2**63, so that one table says how many items have each, in much the same time whatever the counts
are. Where all counts are below 16,384, or of that many items and more below their number and 32,768, each of them is
its own key: the pass is one `bincount` then, and its table the histogram.

Example: counts 5, 3,000, 3,001 have keys of their own. Beside a count of 2**40 they have the keys 5 and, both of them,
2,012; that of 2**40 is 30,720.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.refusal import Refusal

__all__ = ["OWN_KEYS", "Tally", "keys_of", "least_of", "rounded_down"]

Indices = NDArray[np.int64]

OWN_KEYS = 1 << 10
"""Counts below it always have a key of their own."""

_DROPPED = 42  # binary digits of a double
_FIRST = (1023 + 10) << 10  # the ones kept of 1024.0
_PLAIN = 1 << 14  # where all counts are below it, each is its own key; below up to twice that where there are as many
_KEPT = 1 << 18  # keys of vectors up to this length are kept, those of longer ones made again where they are needed
_KEYED, _MARKED = 3, 5  # looks that counting by keys takes more than without, and a look-up for each item
_CHUNK = 1 << 16  # counts whose temporaries stay in the processor's cache
_ROW = 512  # flags that are counted together, eight at a time in bytes of their own
_PART = 1 << 19  # counts of a long vector of which a table of their own is kept
_STRIP = 1 << 13  # those of which the largest is kept
_GROUP = 8  # strips that are read together where one item is looked for


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
    return least_of(keys_of(counts))


def least_of(keys: Indices) -> tuple[Indices, Indices]:
    """The least count of each key, and how many counts share it; for keys of counts below 2**53."""
    shifts = keys >> 10
    return ((OWN_KEYS + (keys & (OWN_KEYS - 1))) << shifts) - OWN_KEYS, 1 << shifts


class Tally:
    """The keys of counts >= 0, shape (d,), int64, d >= 1, and how many items have each.

    Attributes:
        own: keys below it stand for one count, which is the key itself. All of them, or the first 1,024.
        plain: whether it is all of them.
        table: how many items have each key, as far as the largest, shape (n,).
        keys: of each item, uint16, shape (d,); None of a vector of more than 262,144 counts.
        largest: the largest count.
        looks: what looking at the items of a short vector has taken so far, as so many comparisons of all keys.

    Cost: one pass. Memory beside the counts: 1 MB, and an eighth of a byte for each count of a long vector.

    Raises:
        Refusal: a count is negative.
    """

    def __init__(self, vector: Indices) -> None:
        self.vector = vector
        short = len(vector) <= _KEPT
        self.own, self.table = min(max(_PLAIN, len(vector)), 2 * _PLAIN) if short else _PLAIN, np.zeros(1, np.int64)
        self.keys: NDArray[np.uint16] | None = None
        self.largest = 0
        self.looks = 0
        try:
            if short:
                self._count_whole()
            else:
                self._count_parts()
        except ValueError:  # bincount looks at every key
            raise Refusal("counts", "must be at least 0", "a negative count was given") from None
        self.plain = self.own != OWN_KEYS

    def _count_whole(self) -> None:
        vector = self.vector
        self.largest = int(vector.max())
        if self.largest < self.own:
            self.table = np.bincount(vector)
            self.keys = vector.astype(np.uint16)
            return
        self.own, self.keys, self.looks = OWN_KEYS, np.empty(len(vector), np.uint16), _KEYED
        doubles = np.empty(min(_CHUNK, len(vector)))
        for start in range(0, len(vector), _CHUNK):
            part = vector[start : start + _CHUNK]
            keys = _keys_into(doubles[: len(part)], part)
            self._add(np.bincount(keys))
            self.keys[start : start + _CHUNK] = keys

    def _count_parts(self) -> None:
        vector = self.vector
        starts = range(0, len(vector), _PART)
        # Of each part, how many items have each of the keys for one count. In parts half as long, the first writing to
        # this memory takes longer than what is read less where items are looked for.
        self._held = np.empty((len(starts), _PLAIN), np.uint32)
        self._tops = np.empty(-(-len(vector) // _STRIP), np.int64)  # the largest count of each strip
        strips, plain = np.arange(0, _PART, _STRIP), True
        for number, start in enumerate(starts):
            part = vector[start : start + _PART]
            # Without the largest a `bincount` could take any memory. It brings the part into the processor's cache.
            tops = np.maximum.reduceat(part, strips[: -(-len(part) // _STRIP)])
            self._tops[start // _STRIP :][: len(tops)] = tops
            if plain and int(tops.max()) >= _PLAIN:
                plain, doubles = False, np.empty(_PART)
                self._leave_plain()
            some = np.bincount(part if plain else _keys_into(doubles[: len(part)], part))
            end = min(len(some), self.own)
            self._held[number, :end] = some[:end]
            self._held[number, end:] = 0
            self._add(some)
        self.largest = int(self._tops.max())

    def _leave_plain(self) -> None:
        """Turn the counts of the first parts into keys."""
        self.own = OWN_KEYS
        keys = keys_of(np.arange(len(self.table)))
        table = np.zeros(int(keys[-1]) + 1, np.int64)
        np.add.at(table, keys, self.table)
        self.table, self._held = table, self._held[:, :OWN_KEYS].copy()

    def _add(self, some: Indices) -> None:
        long, short = (some, self.table) if len(some) > len(self.table) else (self.table, some)
        long[: len(short)] += short
        self.table = long

    def of(self, counts: Indices) -> Indices:
        """The keys of counts, same shape."""
        return counts if self.plain else keys_of(counts)

    def at(self, items: Indices) -> NDArray[Any]:
        """The keys of items, same shape."""
        return self.of(self.vector.take(items)) if self.keys is None else self.keys.take(items)

    def least(self, key: int) -> int:
        """A count that is no larger than any of a key, and close to the least."""
        if key < self.own:
            return key
        shift = key >> 10
        # From 2**53 on counts just below the least are rounded up to it.
        return ((OWN_KEYS + (key & (OWN_KEYS - 1))) << shift) - OWN_KEYS - (1 << shift >> 40)

    def items_from(self, key: int) -> Indices:
        """The items with a key or a larger one, by index."""
        if self.keys is not None:
            self.looks += 2
            return np.flatnonzero(self.keys >= key)
        least = self.least(key)
        found = [start + np.flatnonzero(counts >= least) for start, counts in self._stretches(least)]
        items = np.concatenate([np.zeros(0, np.int64), *found])
        return items if key < self.own else items[self.at(items) >= key]  # `least` may be a little too low

    def items_between(self, first: int, end: int, but: list[int]) -> Indices:
        """The items with keys from `first` up to, not including, `end`, but for some keys; by index."""
        if self.keys is None:
            items = self.items_from(first)
            return items[self.at(items) < end]
        self.looks += 2
        flags = self.keys >= first
        if end < len(self.table):
            flags &= self.keys < end
        for key in but:
            flags &= self.keys != key
        return _places(flags)

    def only_count(self, key: int) -> int | None:
        """The count that all items of a key have, where they have one; of a short vector."""
        assert self.keys is not None
        self.looks += 2
        count = self.vector[int(np.argmax(self.keys == key))]
        return int(count) if np.count_nonzero(self.vector == count) == self.table[key] else None

    def items_marked(self, codes: NDArray[np.uint16]) -> tuple[Indices, NDArray[np.uint16]]:
        """The items whose keys have a code above 0, by index, and these codes; `codes` is of all keys."""
        if self.keys is not None:
            self.looks += _MARKED
            # Counts that are keys are places as they are; no key is beyond the table, which `clip` need not look for.
            marks = codes.take(self.vector if self.plain else self.keys, mode="clip")
            items = _places(marks > 0)
            return items, marks.take(items)
        lowest = int(np.flatnonzero(codes > 0)[0])
        found, found_codes = [np.zeros(0, np.int64)], [np.zeros(0, np.uint16)]
        for start, counts in self._stretches(self.least(lowest)):
            marks = codes.take(self.of(counts))
            here = np.flatnonzero(marks > 0)
            found.append(start + here)
            found_codes.append(marks.take(here))
        return np.concatenate(found), np.concatenate(found_codes)

    def item_numbers(self, key: int, numbers: Indices) -> Indices:
        """The items of a key below `own` that are numbered so, by index; of a long vector only some parts are read."""
        if self.keys is not None:
            self.looks += 1
            flags = np.empty(len(self.keys) + -len(self.keys) % _ROW, np.bool_)  # so that `_nth` need not copy them
            flags[len(self.keys) :] = False
            np.equal(self.keys, key, out=flags[: len(self.keys)])
            return _nth(flags, numbers)
        held = self._held[:, key].astype(np.int64)
        ends = np.cumsum(held)
        parts = np.searchsorted(ends, numbers, "right")
        items = np.empty(len(numbers), np.int64)
        for part in set(parts.tolist()):
            here = np.flatnonzero(parts == part)
            items[here] = self._within(part, key, int(held[part]), numbers[here] - int(ends[part] - held[part]))
        return items

    def _within(self, part: int, key: int, held: int, numbers: Indices) -> Indices:
        """The items numbered so among those of a key in one part, of which it has `held`; read from the nearer end."""
        first, rows = part * (_PART // _STRIP), _PART // _STRIP
        least, most = int(numbers.min()), int(numbers.max())
        back = least + most > held
        found: list[Indices] = []
        seen, wanted = 0, held - least if back else most + 1
        for start, counts in self._pieces(first + np.flatnonzero(self._tops[first : first + rows] >= key), back):
            found.append(start + np.flatnonzero(counts == key))
            seen += len(found[-1])
            if seen >= wanted:
                break
        return np.concatenate(found[::-1])[numbers - (held - seen)] if back else np.concatenate(found)[numbers]

    def _pieces(self, strips: Indices, back: bool) -> Iterator[tuple[int, Indices]]:
        """Where the counts of some strips begin, and these counts, some strips at once where they lie together."""
        groups = [strips[i : i + _GROUP].tolist() for i in range(0, len(strips), _GROUP)]
        for group in groups[::-1] if back else groups:
            if group[-1] - group[0] < len(group):
                yield group[0] * _STRIP, self.vector[group[0] * _STRIP : (group[-1] + 1) * _STRIP]
                continue
            for strip in group[::-1] if back else group:
                yield strip * _STRIP, self.vector[strip * _STRIP : (strip + 1) * _STRIP]

    def _stretches(self, least: int) -> Iterator[tuple[int, Indices]]:
        """Where those counts begin, and the counts, among which all of at least so much are, by index."""
        rows = _PART // _STRIP
        hot = self._tops >= least
        sizes = np.add.reduceat(hot, np.arange(0, len(hot), rows), dtype=np.int64)
        for part in np.flatnonzero(sizes).tolist():
            first = part * rows
            if 4 * sizes[part] > rows:
                yield first * _STRIP, self.vector[first * _STRIP :][:_PART]
                continue
            for strip in (first + np.flatnonzero(hot[first : first + rows])).tolist():
                yield strip * _STRIP, self.vector[strip * _STRIP :][:_STRIP]

    def pad(self, looks: int) -> None:
        """Look at items of a short vector for nothing, until so much has been looked at."""
        if self.keys is None or self.looks >= looks:
            return
        some, codes = self.keys[: 1 + len(self.keys) // 2], np.zeros(len(self.table), np.uint16)
        marks = np.empty(len(some), np.uint16)
        for _ in range(looks - self.looks):
            codes.take(some, out=marks, mode="clip")
        self.looks = looks


def _places(flags: NDArray[np.bool_]) -> Indices:
    """`flatnonzero`, which takes a multiple of its time where a tenth of the flags or somewhat fewer are set."""
    if not len(flags) < 20 * np.count_nonzero(flags) < 2 * len(flags):
        return np.flatnonzero(flags)
    some = np.ones(len(flags) + len(flags) // 8, np.bool_)
    some[: len(flags)] = flags
    return np.flatnonzero(some)[: int(np.count_nonzero(flags))]


def _nth(flags: NDArray[np.bool_], numbers: Indices) -> Indices:
    """The places of the flags numbered so among those set: half of what `flatnonzero` takes."""
    if len(flags) % _ROW:
        flags = np.append(flags, np.zeros(-len(flags) % _ROW, np.bool_))
    rows = flags.reshape(-1, _ROW)
    sizes = rows.view(np.uint64).sum(axis=1).view(np.uint8).reshape(-1, 8).sum(axis=1, dtype=np.int64)
    ends = np.cumsum(sizes)
    which = ends.searchsorted(numbers, "right")
    inside = np.flatnonzero(rows[which])
    here = sizes[which]
    return _ROW * which + inside[np.cumsum(here) - here + numbers - (ends[which] - here)] % _ROW
