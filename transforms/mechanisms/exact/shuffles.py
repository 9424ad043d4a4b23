"""Uniform orders of the items of many blocks, each as far as it is asked, at addresses of the keystream."""

from __future__ import annotations

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

    def numbers(self, octave: int, places: Indices, turns: Indices) -> Indices:
        """Which items come at these turns, numbered within their block, shape (places, turns).

        Args:
            octave: counted from 0, one after the other.
            places: blocks, rising, all of them asked for in the octaves before.
            turns: those after the ones of the octave before; beyond a block's end the numbers mean nothing.
        """
        partners = self._below(octave, places, turns)
        self._places.append(places)
        self._partners.append(partners)
        traded = self._traded(places)
        ordered = np.sort(traded, axis=1)
        # Where no item is traded twice, turn t takes its partner itself.
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not len(again):
            return partners
        numbers = partners.copy()
        first = int(turns[0])
        for row, all_partners in zip(again.tolist(), traded[again].tolist(), strict=True):
            numbers[row] = _shuffled(all_partners)[first:]
        return numbers

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
        return np.concatenate(rows, axis=1)


def _shuffled(partners: list[int]) -> list[int]:
    """Who comes at each turn, by trading."""
    moved: dict[int, int] = {}
    numbers = []
    for turn, partner in enumerate(partners):
        numbers.append(moved.get(partner, partner))
        moved[partner] = moved.pop(turn, turn)
    return numbers
