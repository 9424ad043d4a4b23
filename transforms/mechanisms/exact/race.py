"""The answer of largest noisy score among astronomically many, found without listing them.

Give every answer y an independent standard exponential clock A_y. Then exp(-A_y) is uniform and the quantile function
of any noise turns it into that noise, the larger the earlier the clock rings. Of a region of m answers the first clock
to ring does so after Exp / m, at an answer uniform over the region; in a part of it that does not hold this answer
the first clock rings Exp / (size of the part) later. So clocks are drawn for regions only, and a region is split
only while the least loss in it could still make it the winner (A* sampling: Maddison, Tarlow & Minka 2014).

Times are exact reals, compared by ball arithmetic: the winner has exactly the distribution of the noisy maximum over
all answers, and is the same on every machine.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import count
from typing import Protocol

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import NOISES
from private_topk.transforms.mechanisms.exact.reals import Real, ball, greater, precision, uniform

__all__ = ["Region", "remembered", "winner"]

_LANE = 0
_PRECISION = 96
_LEVELS = 2  # words of a uniform at that precision
_PREFETCH = 256


class Region(Protocol):
    """A set of answers."""

    @property
    def least_loss(self) -> int:
        """The smallest loss of its answers."""

    def size(self) -> arb:
        """The number of answers, at least 1, as a ball at the working precision."""

    def split(self) -> tuple[Region, Region] | None:
        """Two parts, neither of them empty; None where all answers have the same loss."""

    def draw_ranks(self, draw: Draw) -> NDArray[np.int64]:
        """A uniform answer, as ranks from 0, of a region that does not split."""


def winner(regions: Sequence[Region], rate: Fraction, noise: str, draw: Draw) -> Region:
    """The region of equal losses that holds the answer of largest noise - rate * loss; uniform within the region.

    Args:
        regions: a partition of all answers.
        rate: what one unit of loss weighs in units of the noise.
        noise: the name of a standard noise in `NOISES` with one word a draw.
        draw: its addressed words of lane 0 are used; the sequential ones are left to the caller.

    Returns:
        A region whose `split()` is None. Cost: some tens of splits, about 25 microseconds each beside `size`.
    """
    uniforms = _uniforms(draw)
    entries = [_Entry(r, _delay(next(uniforms), r), rate, noise) for r in regions]
    heapq.heapify(entries)
    while (parts := entries[0].region.split()) is not None:
        leader = entries[0]
        heir, other = parts
        if not _holds_the_first(heir, leader.region, next(uniforms)):
            heir, other = other, heir
        later = _sum(leader.time, _delay(next(uniforms), other))
        heapq.heapreplace(entries, _Entry(heir, leader.time, rate, noise))
        heapq.heappush(entries, _Entry(other, later, rate, noise))
    return entries[0].region


def remembered(value: Real) -> Real:
    """The same real, computed once at each precision."""
    known: dict[int, arb] = {}

    def recall() -> arb:
        if ctx.prec not in known:
            known[ctx.prec] = value()
        return known[ctx.prec]

    return recall


class _Entry:
    """A region in the heap, the one that could win by most first."""

    __slots__ = ("_high", "_low", "_score", "region", "time")

    def __init__(self, region: Region, time: Real, rate: Fraction, noise: str) -> None:
        self.region, self.time = region, time
        quantile, weight = NOISES[noise].quantile, rate * region.least_loss
        self._score = remembered(lambda: quantile(-(-time()).expm1()) - ball(weight))
        with precision(_PRECISION):
            score = self._score()
            # One step outwards covers the rounding to a float.
            self._low = math.nextafter(float(score.lower()), -math.inf)
            self._high = math.nextafter(float(score.upper()), math.inf)

    def __lt__(self, other: _Entry) -> bool:
        if self._low > other._high:
            return True
        if self._high < other._low:
            return False
        return greater(self._score, other._score)


def _delay(number: Real, region: Region) -> Real:
    return lambda: -number().log() / region.size()


def _sum(left: Real, right: Real) -> Real:
    return remembered(lambda: left() + right())


def _holds_the_first(part: Region, whole: Region, number: Real) -> bool:
    return greater(part.size, lambda: number() * whole.size())


def _uniforms(draw: Draw) -> Iterator[Real]:
    """The uniforms at index 0, 1, 2, ..., their first words fetched many at a time."""
    for start in count(0, _PREFETCH):
        levels = [draw.words(_LANE, start, _PREFETCH, level).tolist() for level in range(_LEVELS)]
        for offset, words in enumerate(zip(*levels, strict=True)):
            yield uniform(draw, _LANE, start + offset, words)
