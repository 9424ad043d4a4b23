"""Sorting 64-bit words, by the quickest way there is on every processor, and numbering the runs of what is sorted."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["numbered", "sorted_with_order", "sorted_words"]

Words = NDArray[np.uint64]
Codes = NDArray[np.int64]
Keys = TypeVar("Keys", Words, Codes)

_FEW = 1 << 13  # words


def sorted_words(words: Keys) -> Keys:
    """64-bit words, increasing; not to be written to. Cost: 10 to 16 ns a word, on every processor.

    By polars, on this thread and without Python's lock: numpy's own sort takes four times that where a processor has
    AVX-512 and its compressed stores are slow, as on AMD Zen 4. A few are not worth a call of polars.
    """
    if len(words) < _FEW:
        return np.sort(words)
    import polars as pl

    return pl.Series(words).sort(multithreaded=False).to_numpy()


def sorted_with_order(words: Words) -> tuple[Words, Codes]:
    """The words, increasing, and their positions: of equal ones the first is first.

    Cost: a sort of 64-bit integers. It sorts the top bits of the word with the position below them, so no index array
    is sorted along; words equal in those bits and no further are sorted once more.
    """
    low = np.uint64(max(len(words) - 1, 1).bit_length())
    packed = sorted_words((words >> low << low) | np.arange(len(words), dtype=np.uint64))
    order = (packed & ((np.uint64(1) << low) - np.uint64(1))).view(np.int64)
    in_order = words.take(order)
    wrong = np.flatnonzero(in_order[1:] < in_order[:-1])
    if len(wrong):
        tops = in_order >> low
        run = numbered(np.append(True, tops[1:] != tops[:-1]))
        rows = np.flatnonzero(np.bincount(run.take(wrong), minlength=len(words)).take(run))
        some = order.take(rows)
        order[rows] = some.take(np.argsort(words.take(some), kind="stable"))
        in_order = words.take(order)
    return in_order, order


def numbered(fresh: NDArray[np.bool_]) -> Codes:
    """0, 1, ... for every run of rows that starts where `fresh` is true; the first row does.

    Cost: 3 ns a row. Adding up truth values as they are takes numpy ten times that, with Python's lock in its hands.
    """
    ranks = fresh.astype(np.int64)
    ranks[:1] = 0
    return np.cumsum(ranks)
