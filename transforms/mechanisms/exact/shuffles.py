"""Uniform orders of the items of many blocks, each as far as it is asked, at addresses of the keystream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw, below

__all__ = ["Shuffles"]

Indices = NDArray[np.int64]


class Shuffles:
    """A Fisher-Yates shuffle of each of many blocks of `sizes` items: at turn t item t trades places with one after it.

    Args:
        sizes: shape (n,), at least 1.
        draw, lane: where the bits come from: lanes from this one on, as many as `numbers` is called with octaves.
    """

    def __init__(self, sizes: Indices, draw: Draw, lane: int) -> None:
        self._sizes, self._draw, self._lane = sizes, draw, lane
        self._places: list[Indices] = []  # by octave, as the partners are
        self._partners: list[Indices] = []

    def numbers(self, places: Indices, octaves: Sequence[tuple[int, Indices]]) -> Indices:
        """Which items come at the turns of some octaves, numbered within their block, shape (places, turns).

        Args:
            places: blocks, rising, all of them asked for in the octaves before.
            octaves: counted from 0, one after the other, and the turns of each. Beyond a block's end the numbers mean
                nothing.
        """
        for octave, turns in octaves:
            self._places.append(places)
            self._partners.append(self._below(octave, places, turns))
        first = int(octaves[0][1][0])
        traded = self._traded(places)
        numbers = _after_trades(traded, first) if traded.shape[1] > 1 else None  # nobody has traded before the first
        return traded[:, first:] if numbers is None else numbers

    def _below(self, octave: int, places: Indices, turns: Indices) -> Indices:
        """turn + an exactly uniform number below size - turn."""
        left = np.maximum(self._sizes[places][:, None] - turns, 1)
        numbers, rejected = below(self._draw.grid(self._lane + octave, places, len(turns)), left)
        level = 0
        while rejected.any():
            level += 1
            for row, column in zip(*np.nonzero(rejected), strict=True):
                word = self._draw.words(self._lane + octave, int(places[row]) * len(turns) + int(column), 1, level)
                number, again = below(word, left[row, column : column + 1])
                numbers[row, column], rejected[row, column] = number[0], again[0]
        return numbers + turns

    def _traded(self, places: Indices) -> Indices:
        """The partners of some blocks so far, shape (places, turns)."""
        pairs = zip(self._places, self._partners, strict=True)
        rows = [past if before is places else past[np.searchsorted(before, places)] for before, past in pairs]
        return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)


def _after_trades(partners: Indices, first: int) -> Indices | None:
    """Who comes at the turns from `first` on, if it is not just the partners; of many blocks, shape (places, turns).

    At turn t the item at place p_t comes. That is p_t itself, unless somebody was traded there: at the last turn s
    before t with p_s = p_t the item that was at place s, which is s, unless it was traded there at a turn before s, and
    so on.
    """
    rows, turns = partners.shape
    size = int(partners.max()) + 1
    if rows * size * turns >= 2**62:  # Python's integers would do, but such numbers of items are not at hand
        listed = [_shuffled(row) for row in partners.tolist()]
        return np.array(listed)[:, first:]
    # Of each place its turns in order: a number for block, place and turn, sorted.
    blocks, now = np.arange(rows)[:, None] * size, np.arange(turns)
    codes = ((blocks + partners) * turns + now).ravel()
    codes.sort()
    held, when = np.divmod(codes, turns)
    again = np.flatnonzero((held[1:] == held[:-1]) & (when[1:] >= first)) + 1
    if not len(again):
        return None
    row, item, left = held[again] // size, when[again - 1], np.arange(len(again))
    while len(left):
        # Whether somebody was traded to the place of an item before its turn.
        place = row[left] * size + item[left]
        before = codes.searchsorted(place * turns + item[left]) - 1
        moved = (before >= 0) & (held[before] == place)
        left = left[moved]
        item[left] = when[before[moved]]
    numbers = partners[:, first:].copy()
    numbers[row, when[again] - first] = item
    return numbers


def _shuffled(partners: list[int]) -> list[int]:
    """Who comes at each turn, by trading."""
    moved: dict[int, int] = {}
    numbers = []
    for turn, partner in enumerate(partners):
        numbers.append(moved.get(partner, partner))
        moved[partner] = moved.pop(turn, turn)
    return numbers
