"""A keystream some of whose words are chosen, to meet what random ones meet once in 2**30 draws or never."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw

SEQUENTIAL = 2**32 - 1
"""The lane of the sequential bits."""


class GivenWords(Draw):
    """The keystream of an all-zero key, with other words at some addresses (lane, index, level)."""

    def __init__(self, words: Mapping[tuple[int, int, int], int]) -> None:
        super().__init__(bytes(32))
        self._given = dict(words)

    def words(self, lane: int, start: int, count: int, level: int = 0) -> NDArray[np.uint64]:
        found = super().words(lane, start, count, level).copy()
        for (its_lane, index, its_level), word in self._given.items():
            if (its_lane, its_level) == (lane, level) and start <= index < start + count:
                found[index - start] = word
        return found

    def grid(self, lane: int, places: NDArray[np.int64], width: int) -> NDArray[np.uint64]:
        return np.stack([self.words(lane, place * width, width) for place in places.tolist()])
