"""A bound on windows: which of those that a user is active in they count in. No Beam here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from private_topk.transforms.columnar import Codes, Words, kept_pairs

__all__ = ["WindowsOfUsers"]

_MOST_PAIRS = 1 << 22


class WindowsOfUsers:
    """In which windows every user counts: at most `limit` of those in which they have a row, the lowest by a keyed hash
    of user and window.

    Every window that a user is active in is as likely as any other, whatever they did in it, so no window gains users
    by what happened in the others. The choice depends on that user's rows alone.

    Privacy: a user who is added or removed changes at most `limit` windows; one who is replaced at most twice as many.
    Of a user whose rows in one window are others, that window changes, and perhaps another that gives way to it, or
    takes its place.

    Args:
        users: (n,) words of the users for this choice, one a row.
        first, after: the first window of every row, and the one after its last.
        windows: how many there are.

    Cost: two sorts of the rows. Overlapping windows are written out for some four million pairs at a time.
    """

    def __init__(self, users: Words, first: Codes, after: Codes, windows: int, limit: int) -> None:
        self._users, ranks = np.unique(users, return_inverse=True)
        self._windows = windows
        kept = [np.empty(0, np.int64)]
        for some, at in _pairs(ranks, first, after, windows):
            places = kept_pairs(some, at, self._users, None, limit)
            kept.append(np.sort(some[places] * windows + at[places]))
        self._kept = np.concatenate(kept)

    def count(self, users: Words, windows: Codes) -> np.ndarray:
        """Whether users count in windows, (n,) of bool. They are users of whom there are rows."""
        wanted = np.searchsorted(self._users, users) * self._windows + windows
        places = np.minimum(np.searchsorted(self._kept, wanted), max(len(self._kept) - 1, 0))
        return self._kept[places] == wanted if len(self._kept) else np.zeros(len(wanted), bool)


def _pairs(ranks: Codes, first: Codes, after: Codes, windows: int) -> Iterator[tuple[Codes, Codes]]:
    """The distinct (rank, window) pairs in order, whole users at a time."""
    order = np.lexsort((after, first, ranks))
    ranks, first, after = ranks[order], first[order], after[order]
    offset = ranks * (windows + 1)
    reached = np.maximum.accumulate(after + offset) - offset  # up to where a user's rows so far have got
    fresh = ranks[1:] != ranks[:-1]
    low = np.maximum(first, np.append(0, np.where(fresh, 0, reached[:-1]))) if len(ranks) else first
    lengths = np.maximum(after - low, 0)
    edges = np.flatnonzero(np.append(True, fresh)) if len(ranks) else np.empty(0, np.int64)
    ends = np.append(edges[1:], len(ranks))
    held = np.cumsum(lengths)
    start = 0
    while start < len(ranks):
        most = (held[start - 1] if start else 0) + _MOST_PAIRS
        fitting = ends[(ends > start) & (held[ends - 1] <= most)] if len(ends) else ends
        stop = int(fitting[-1]) if len(fitting) else int(ends[ends > start][0])
        rows = slice(start, stop)
        some = lengths[rows]
        within = np.arange(some.sum()) - np.repeat(np.cumsum(some) - some, some)
        yield np.repeat(ranks[rows], some), np.repeat(low[rows], some) + within
        start = stop
