"""The k-sets of items by their joint loss, as regions that a race can split."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.bits import Draw
from private_topk.transforms.mechanisms.exact import uniform
from private_topk.transforms.mechanisms.strips import Strip
from private_topk.transforms.mechanisms.subsets import uniform_subset

__all__ = ["LossInterval", "SetLosses"]

_WALK_LANE = 1


class SetLosses:
    """How many sets lose at most R: those with j_i <= t_i(R), the number of counts that are at least c_i - R."""

    def __init__(self, ascending: NDArray[np.int64], k: int) -> None:
        self._ascending, self.k, self.d = ascending, k, len(ascending)
        self._top = ascending[: -k - 1 : -1]
        self._numbers: dict[tuple[int, int], arb] = {}

    def everything(self) -> LossInterval:
        """All sets."""
        return LossInterval(self, None, 0, int((self._top - self._ascending[self.k - 1 :: -1]).max()))

    def reach(self, loss: int) -> NDArray[np.int64]:
        """t_i(loss), shape (k,)."""
        return self.d - np.searchsorted(self._ascending, self._top - loss, "left")

    def number(self, loss: int) -> arb:
        """How many sets lose at most this, as a ball at the working precision."""
        key = (loss, ctx.prec)
        if key not in self._numbers:
            self._numbers[key] = Strip(self.reach(loss)).number()
        return self._numbers[key]

    def attained(self, loss: int) -> int:
        """The largest loss of a set that is at most this."""
        limit = self._highest(loss)
        return bisect_left(range(loss), True, key=lambda r: bool((self._highest(r) == limit).all()))

    def next_attained(self, loss: int) -> int:
        """The least loss of a set above this one, which must not be the largest."""
        limit = self._highest(loss)
        top = int(self._top[0] - self._ascending[0])
        return loss + 1 + bisect_left(range(loss + 1, top), True, key=lambda r: bool((self._highest(r) != limit).any()))

    def _highest(self, loss: int) -> NDArray[np.int64]:
        """The last set that loses at most this: every member is at its highest rank. It tells whether losses differ."""
        places = np.arange(self.k)
        return np.minimum.accumulate((self.reach(loss) - places)[::-1])[::-1] + places


@dataclass(frozen=True)
class LossInterval:
    """The sets that lose more than `below` (None: any), at least `least_loss`, at most `most_loss`, all attained."""

    losses: SetLosses
    below: int | None
    least_loss: int
    most_loss: int

    def size(self) -> arb:
        number = self.losses.number(self.most_loss)
        return number if self.below is None else (number - self.losses.number(self.below)).max(arb(1))

    def split(self) -> tuple[LossInterval, LossInterval] | None:
        """The halves of smaller and of larger loss."""
        if self.least_loss == self.most_loss:
            return None
        losses = self.losses
        most = losses.attained((self.least_loss + self.most_loss) // 2)
        return (
            LossInterval(losses, self.below, self.least_loss, most),
            LossInterval(losses, most, losses.next_attained(most), self.most_loss),
        )

    def draw_ranks(self, draw: Draw) -> NDArray[np.int64]:
        """A uniform set of the interval: its ranks, from 0."""
        inner = None if self.below is None else self.losses.reach(self.below)
        strip = Strip(self.losses.reach(self.most_loss), inner)
        numbers = [uniform(draw, _WALK_LANE, i) for i in range(len(strip.segments))]
        members = strip.members(numbers)
        ranks, start = [], 0
        for segment, m in zip(strip.segments, members, strict=True):
            ranks += [start + i for i in uniform_subset(draw, segment.size, m)]
            start += segment.size
        return np.array(ranks)
