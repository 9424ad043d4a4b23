"""Contribution bounds: which of a user's windows, groups and items count, chosen by keyed hashes. No Beam."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.transforms.columnar import (
    STEP_BITS,
    Codes,
    Words,
    joined,
    kept_pairs,
    make_table,
    mix,
    numbered,
    of_rows,
    parted,
    sorted_sums,
    sorted_words,
)
from private_topk.transforms.groups import chosen, first_groups
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.metric import Pairs
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.spec import TopK


class Choices:
    """A hash word of each user for each purpose, which together with the hashes of the options makes the choice.

    One word for two purposes would correlate them: the group that a user counts in would tell which items do.
    """

    def __init__(self, key: ReleaseKey) -> None:
        self._key, self._own = key, dict[str, np.uint64]()  # derived on first use: the key may be kept elsewhere

    def hashes(self, purpose: Literal["groups", "items", "windows"], users: Words) -> Words:
        """The words of users for a purpose; different users have different words.

        Args:
            users: (n,) their keyed hashes.
        """
        if purpose not in self._own:
            self._own[purpose] = np.uint64(int.from_bytes(self._key.derive(f"choice of {purpose}")[:8], "little"))
        return mix(users ^ self._own[purpose])


_MAX_PAIRS = 1 << 22


class WindowsOfUsers:
    """The windows that every user counts in: at most `limit` of those in which they have a row, the lowest by a keyed
    hash of user and window.

    Every window that a user is active in is equally likely, whatever they did in it, so no window gains users
    by what happened in the others. The choice depends on that user's rows alone.

    Privacy: a user who is added or removed changes at most `limit` windows; one who is replaced at most twice as many.
    If a user's rows change in one window, that window changes, and perhaps one other, which it displaces or which takes
    its place.

    Args:
        users: (n,) words of the users for this choice, one a row.
        first, after: the first window of every row, and the one after its last.
        windows: how many there are.

    Cost: two sorts of the rows. Overlapping windows are written out for some users at a time: some four million pairs.
    """

    def __init__(self, users: Words, first: Codes, after: Codes, windows: int, limit: int) -> None:
        self._users, ranks = np.unique(users, return_inverse=True)
        self._windows = windows
        base = windows + 1  # a period has at most 100,000: 10**8 users and their spans fit in 64 bits
        spans = _distinct((ranks * base + first) * base + after)
        ranks, first, after = spans // base**2, spans // base % base, spans % base
        parts = 1 + int((after - first).sum()) // _MAX_PAIRS
        kept = []
        for part in range(parts):
            some = np.flatnonzero(ranks % parts == part)
            lengths = (after - first)[some]
            within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            pairs = _distinct(np.repeat((ranks * windows + first)[some], lengths) + within)
            kept.append(pairs[kept_pairs(*np.divmod(pairs, windows), self._users, None, limit)])
        self._kept = np.sort(np.concatenate(kept))

    def count(self, users: Words, windows: Codes) -> np.ndarray:
        """Whether users count in windows, (n,) of bool. They are users of whom there are rows."""
        wanted = np.searchsorted(self._users, users) * self._windows + windows
        places = np.minimum(np.searchsorted(self._kept, wanted), max(len(self._kept) - 1, 0))
        return self._kept[places] == wanted if len(self._kept) else np.zeros(len(wanted), bool)


NEW_PAIRS = -1
"""In place of an item shard: the table is of pairs, and not of counts."""
_NO_LABELS = pa.array([], pa.large_string())
_MAX_ROWS = 1 << 22
_MAX_ROWS_OF_PAIR = (1 << 32) - 1


class _Pairs(NamedTuple):
    """(n,) user words and codes of items. A code has the window above the item: window << bits | item. In an unknown
    domain also the labels and their words by item. And what each row adds, in units.
    """

    users: Words
    codes: Codes
    bits: int
    labels: pa.Array | None
    hashes: Words | None
    added: Codes

    def window(self, codes: Codes) -> Codes:
        return codes >> self.bits

    def item(self, codes: Codes) -> Codes:
        return codes & ((1 << self.bits) - 1)


@dataclass
class UsersSeen:
    """How many rows and users there are in a user shard. A user of whom there is a row has one in some part of it."""

    rows: int = 0
    at_least: int = 0
    at_most: int = 0

    def note(self, users: Words) -> None:
        """Note the users of a part, those of one user next to each other."""
        number = len(users) and 1 + int(np.count_nonzero(users[1:] != users[:-1]))
        self.at_least, self.at_most = max(self.at_least, number), self.at_most + number


class UserShard:
    """Bounds and counts the (user, item) pairs of one user shard.

    Pairs are tables of {user: uint64, item: code or string}, and the columns of the score, in units of 1 or more; where
    every group has a ranking, `group`, its number, and `rows`, how many rows the pair stands for, 0 where it was
    counted before and stands for itself; and where they hold several windows, `first` (and `after`, where these
    overlap): the number of the first window that a row is in (and of the one after its last).

    Which items of a user are kept does not depend on what is added to them, so it can be decided as rows arrive. In
    which windows a user counts is chosen among all rows at once, so it is of `counts` alone; in which groups, by the
    rows in each.
    """

    def __init__(self, spec: TopK, partitioning: Partitioning, key: ReleaseKey) -> None:
        self._partitioning, self._key, self._choices = partitioning, key, Choices(key)
        self._limit, self._score = spec.max_items_per_user, spec.added_up
        self._groups_per_user = 1 if spec.groups is None else spec.groups.per_user
        self._overall = None if spec.groups is None or not spec.groups.overall else spec.groups.labels.size
        self._windows_per_user = spec.max_windows_per_user or partitioning.time_windows

    @classmethod
    def of(cls, spec: TopK, rows: Partitioning, key: ReleaseKey) -> UserShard:
        """A user shard with the bounds of a specification."""
        return (SeriesShard if rows.series else cls)(spec, rows, key)

    def no_rows(self) -> pa.RecordBatch:
        """The table of a user shard without users."""
        items = np.empty(0, self._partitioning.code_type) if self._partitioning.size else _NO_LABELS
        spans = {name: np.empty(0, kind) for name, kind in self._partitioning.window_columns.items()}
        nothing = np.empty(0, np.int64)
        columns = spans | self._grouped(nothing, nothing) | self._score.stored(nothing)
        return make_table(user=np.empty(0, np.uint64), item=items, **columns)

    def distinct(self, pairs: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
        """The bounded distinct pairs of one window as one table. `counts` gives the same result whether, when and how
        often this is done.
        """
        table = joined(pairs)
        coded = self._pairs(table)
        groups = {}
        if self._partitioning.groups:  # which of the groups count depends on all rows, so it is decided later
            kinds = np.stack([table["rows"].to_numpy().astype(np.int64), coded.added])
            caps = np.array([[_MAX_ROWS_OF_PAIR], [self._score.cap]])
            ranks, codes, users, (rows, added) = sorted_sums(coded.users, coded.codes, kinds, caps)
            groups = self._grouped(coded.window(codes), rows)
        else:
            ranks, codes, users, added = self._bound(coded)
        codes = coded.item(codes)
        items = (
            codes.astype(self._partitioning.code_type) if coded.labels is None else coded.labels.take(pa.array(codes))
        )
        return make_table(user=users[ranks], item=items, **groups, **self._score.stored(added))

    def _grouped(self, groups: Codes, rows: Codes) -> dict[str, Codes]:
        return {"group": groups, "rows": rows.astype(np.uint32)} if self._partitioning.groups else {}

    def counts(
        self, pairs: Iterable[pa.RecordBatch], seen: UsersSeen | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """(item shard, {item: code or string, count: int64}): what the users of this shard add to each item. With a
        column `window` where there are several. Where a step of a series is published alone also (`NEW_PAIRS`, what
        is new at it).

        Args:
            seen: notes how many rows and users there were.
        """
        table = joined([self.no_rows(), *pairs])
        seen = UsersSeen() if seen is None else seen
        seen.rows += len(table)
        for part in self._in_windows(table):
            coded = self._pairs(self._in_groups(part))
            bounded = self._bound(coded)
            seen.note(bounded.users)
            size = self._partitioning.windows << coded.bits
            present, counts = self._score.totals(bounded.ranks, bounded.codes, bounded.added, size)
            yield from self._by_key(coded, present, counts)
            if self._partitioning.step is not None:
                yield NEW_PAIRS, self._new_pairs(coded, bounded, self._partitioning.step)

    def _new_pairs(self, pairs: _Pairs, bounded: Pairs, step: int) -> pa.RecordBatch:
        """What users of this shard newly count for at a step of a series."""
        windows, rankings = pairs.window(bounded.codes), self._partitioning.rankings
        new = windows // rankings == step
        columns = {"user": bounded.users[bounded.ranks[new]], "item": pairs.item(bounded.codes[new])}
        if self._partitioning.groups:
            columns["group"] = windows[new] % rankings
        return make_table(**columns, **self._score.stored(bounded.added[new]))

    def _in_windows(self, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of the windows that their users count in, some windows at a time."""
        if self._windows_per_user >= self._partitioning.time_windows:
            yield from self._parts(table)
            return
        first = self._dates(table)
        after = table["after"].to_numpy().astype(np.int64) if self._partitioning.overlap else first + 1
        windows_of_users = WindowsOfUsers(
            self._own("windows", table), first, after, self._partitioning.time_windows, self._windows_per_user
        )
        for part in self._parts(table):
            yield part.filter(pa.array(windows_of_users.count(self._own("windows", part), self._dates(part))))

    def _own(self, purpose: Literal["groups", "windows"], table: pa.RecordBatch) -> Words:
        """The words of the users of rows for a choice."""
        return self._choices.hashes(purpose, table["user"].to_numpy())

    def _parts(self, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Overlapping windows a few groups at a time, so that no more than about four million rows of them are held."""
        if not self._partitioning.overlap:
            yield table
            return
        first, after = (table[name].to_numpy().astype(np.int64) for name in ("first", "after"))
        for start, stop in self._ranges(int((after - first).sum())):
            low, high = np.maximum(first, start), np.minimum(after, stop)
            rows = np.flatnonzero(low < high)
            lengths = (high - low)[rows]
            within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            wide = of_rows(table).take(pa.array(np.repeat(rows, lengths)))
            columns = {name: wide[name] for name in wide.schema.names}
            yield make_table(**columns, first=np.repeat(low[rows], lengths) + within)

    def _ranges(self, rows: int) -> Iterator[tuple[int, int]]:
        """Ranges of windows of time: whole groups of windows; where these are cut into parts, whole windows."""
        partitioning = self._partitioning
        number = partitioning.time_windows if partitioning.groups else partitioning.window_groups
        step = max(1, number * _MAX_ROWS // max(rows, 1))
        for first in range(0, number, step):
            last = min(first + step, number)
            yield (
                (first, last)
                if partitioning.groups
                else (partitioning.group(first).start, partitioning.group(last - 1).stop)
            )

    def _in_groups(self, table: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the groups that their users count in; and all rows once more, if they have a ranking too."""
        if not self._partitioning.groups:
            return table
        if self._overall is None:
            return table.filter(pa.array(self._chosen(table)))
        groups, rows = table["group"].to_numpy(), table["rows"].to_numpy()
        listed = table.filter(pa.array(groups < self._overall))
        every = table.filter(pa.array((groups == self._overall) | (rows > 0)))
        columns = {name: every[name] for name in every.schema.names}
        columns["group"] = pa.array(np.full(len(every), self._overall, groups.dtype))
        return joined([listed.filter(pa.array(self._chosen(listed))), make_table(**columns)])

    def _chosen(self, table: pa.RecordBatch) -> np.ndarray:
        """Which rows are of groups that their users count in, (n,) of bool."""
        groups, rows = (table[name].to_numpy().astype(np.int64) for name in ("group", "rows"))
        return chosen(self._own("groups", table), self._dates(table), groups, rows, self._groups_per_user)

    def _dates(self, table: pa.RecordBatch) -> Codes:
        return (
            table["first"].to_numpy().astype(np.int64)
            if self._partitioning.time_windows > 1
            else np.zeros(len(table), np.int64)
        )

    def _pairs(self, table: pa.RecordBatch) -> _Pairs:
        labels = words = None
        if self._partitioning.size:
            codes, size = table["item"].to_numpy().astype(np.int64), self._partitioning.size
        else:
            dictionary = table["item"].dictionary_encode()
            codes, labels = dictionary.indices.to_numpy().astype(np.int64), dictionary.dictionary
            words, size = hash_labels(labels, self._key.derive("item hash")), len(labels)
            if self._limit is not None and _any_twice(words):
                codes, labels, words = _in_order(codes, labels, words)
        bits = max(size - 1, 0).bit_length()
        windows = self._dates(table)
        if self._partitioning.groups:
            windows = windows * self._partitioning.groups + table["group"].to_numpy().astype(np.int64)
        codes = codes | windows << bits
        return _Pairs(table["user"].to_numpy(), codes, bits, labels, words, self._score.added(table))

    def _bound(self, pairs: _Pairs) -> Pairs:
        bounded = ranks, codes, users, added = self._score.pairs(pairs.users, pairs.codes, pairs.added)
        if self._limit is None:
            return bounded
        if self._partitioning.windows > 1:
            fresh = _changes(ranks) | _changes(pairs.window(codes))
            users, ranks = users[ranks[fresh]], numbered(fresh)
        kept = kept_pairs(ranks, pairs.item(codes), self._choices.hashes("items", users), pairs.hashes, self._limit)
        return Pairs(ranks[kept], codes[kept], users, added[kept])

    def _by_key(self, pairs: _Pairs, codes: Codes, counts: Codes) -> Iterator[tuple[int, pa.RecordBatch]]:
        windows, items, partitioning = pairs.window(codes), pairs.item(codes), self._partitioning
        if pairs.labels is None or pairs.hashes is None:
            shards = items >> partitioning.item_bits
        else:
            shards = (pairs.hashes[items] % np.uint64(partitioning.item_shards)).astype(np.int64)
        keys = partitioning.keys(windows, shards)

        def table_of(rows: Codes) -> pa.RecordBatch:
            some = items[rows]
            labels = some.astype(partitioning.item_type) if pairs.labels is None else pairs.labels.take(pa.array(some))
            column = {"window": windows[rows].astype(np.uint32)} if partitioning.windows > 1 else {}
            return make_table(**column, item=labels, count=counts[rows])

        return parted(keys, partitioning.window_groups * partitioning.item_shards, table_of)


class SeriesShard(UserShard):
    """Bounds and counts the pairs of one user shard for windows to date, in the order in which they came.

    A pair counts from the first window on that one of its rows is in, and its count has that window's number alone. Of
    every user (and group) the first items stay: those of the least first window, then of the least hash of user and
    item. So what a user adds to a window follows from their rows up to its end, and never goes back: the sensitivity of
    `CorrelatedGaussian` is proved of that. What a window adds is the growth of a pair's sum, up to the cap.
    """

    def _chosen(self, table: pa.RecordBatch) -> np.ndarray:
        groups = table["group"].to_numpy().astype(np.int64)
        return first_groups(self._own("groups", table), self._dates(table), groups, self._groups_per_user)

    def _bound(self, pairs: _Pairs) -> Pairs:
        windows, groups, bits = pairs.window(pairs.codes), self._partitioning.rankings, STEP_BITS
        cells = windows % groups << pairs.bits | pairs.item(pairs.codes)
        # Within a pair its steps follow each other: what the first few of them add is what it has grown to.
        ranks, keys, users, added = self._score.pairs(pairs.users, cells << bits | windows // groups, pairs.added)
        cells, steps = keys >> bits, keys & ((1 << bits) - 1)
        new_list = _changes(ranks) | _changes(cells >> pairs.bits)
        first = new_list | _changes(cells)
        added = _growth(added, first, self._score.cap)
        owners, lists = self._choices.hashes("items", users[ranks[new_list]]), numbered(new_list)[first]
        assert self._limit is not None, "the mechanism of a series has a bound"
        kept = kept_pairs(lists, pairs.item(cells[first]), owners, pairs.hashes, self._limit, steps[first])
        within = np.zeros(np.count_nonzero(first), bool)
        within[kept] = True
        kept = np.flatnonzero(within[numbered(first)] & (added > 0))
        cells, steps = cells[kept], steps[kept]
        codes = steps * groups + (cells >> pairs.bits) << pairs.bits | pairs.item(cells)
        return Pairs(ranks[kept], codes, users, added[kept])


def _growth(added: Codes, first: np.ndarray, cap: int) -> Codes:
    """By how much each row, of at most the cap, raises the sum of its pair, which goes up to the cap. Rows of a pair
    stand together.
    """
    total, starts = np.cumsum(added), np.flatnonzero(first)
    before = np.repeat((total - added)[starts], np.diff(np.append(starts, len(added))))
    sums = np.minimum(total - before, cap)
    return sums - np.where(first, 0, np.append(0, sums[:-1])[: len(sums)])


def _changes(values: Codes) -> np.ndarray:
    """Where a value is not the one before; the first is not."""
    return np.diff(values, prepend=-1) != 0


def _distinct(codes: Codes) -> Codes:
    ordered = sorted_words(codes)
    return ordered[_changes(ordered)]


def _any_twice(words: Words) -> bool:
    ordered = sorted_words(words)
    return bool(np.any(ordered[1:] == ordered[:-1]))


def _in_order(codes: Codes, labels: pa.Array, words: Words) -> tuple[Codes, pa.Array, Words]:
    """Codes renumbered in the order of the labels' bytes, with labels and words. Which of two items with the same hash
    is kept then depends on their labels, and not on which came first, which other users could influence.
    """
    order = pc.sort_indices(labels).to_numpy()
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place[codes], labels.take(pa.array(order)), words[order]
