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
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import count
from typing import NamedTuple, Protocol

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
    with precision(_PRECISION):  # enough for nearly every decision; `greater` takes more by itself
        runners = _Runners(NOISES[noise].quantile, rate)
        uniforms = _uniforms(draw)
        entries = [runners.started(region, region.size(), next(uniforms)) for region in regions]
        heapq.heapify(entries)
        while (parts := entries[0].region.split()) is not None:
            leader = entries[0]
            heir, other = parts
            size, others = heir.size(), other.size()
            if not _holds_the_first(heir, size, leader, next(uniforms)):
                heir, other, size, others = other, heir, others, size
            heapq.heapreplace(entries, runners.entry(heir, size, leader.time, leader.noise))
            heapq.heappush(entries, runners.started(other, others, next(uniforms), leader.time))
        return entries[0].region


def remembered(value: Real, known: arb | None = None) -> Real:
    """The same real, computed once at each precision; at the working one `known`, where that is given."""
    balls = {} if known is None else {ctx.prec: known}

    def recall() -> arb:
        if ctx.prec not in balls:
            balls[ctx.prec] = value()
        return balls[ctx.prec]

    return recall


class _Number(NamedTuple):
    """A real, and its ball at the working precision."""

    real: Real
    ball: arb


class _Entry:
    """A region in the heap, the one that could win by most first."""

    __slots__ = ("_high", "_low", "_score", "noise", "region", "size", "time")

    def __init__(self, region: Region, size: arb, time: _Number, noise: _Number, rate: _Number) -> None:
        self.region, self.size, self.time, self.noise = region, size, time, noise
        loss = region.least_loss
        self._score = lambda: noise.real() - rate.real() * loss
        score = noise.ball - rate.ball * loss
        # One step outwards covers the rounding to a float.
        self._low = math.nextafter(float(score.lower()), -math.inf)
        self._high = math.nextafter(float(score.upper()), math.inf)

    def __lt__(self, other: _Entry) -> bool:
        if self._low > other._high:
            return True
        if self._high < other._low:
            return False
        return greater(self._score, other._score)


class _Runners:
    """Entries of one race."""

    def __init__(self, quantile: Callable[[arb], arb], rate: Fraction) -> None:
        self._quantile = quantile
        self._rate = _Number(lambda: ball(rate), ball(rate))

    def entry(self, region: Region, size: arb, time: _Number, noise: _Number) -> _Entry:
        return _Entry(region, size, time, noise, self._rate)

    def started(self, region: Region, size: arb, number: _Number, after: _Number | None = None) -> _Entry:
        """A region whose first clock rings Exp / size after that time."""
        quantile = self._quantile
        if after is None:
            rings, known = lambda: -number.real().log() / region.size(), -number.ball.log() / size
        else:
            rings = lambda: after.real() - number.real().log() / region.size()  # noqa: E731
            known = after.ball - number.ball.log() / size
        time = remembered(rings, known)
        first = quantile(-(-known).expm1())
        noise = remembered(lambda: quantile(-(-time()).expm1()), first)
        return _Entry(region, size, _Number(time, known), _Number(noise, first), self._rate)


def _holds_the_first(part: Region, size: arb, leader: _Entry, number: _Number) -> bool:
    """Whether the answer that rings first in the leader's region is one of the part's, which are `size`."""
    ticket = number.ball * leader.size
    if size > ticket or size < ticket:
        return bool(size > ticket)
    whole = leader.region
    return greater(part.size, lambda: number.real() * whole.size())


def _uniforms(draw: Draw) -> Iterator[_Number]:
    """The uniforms at index 0, 1, 2, ..., their first words fetched many at a time."""
    for start in count(0, _PREFETCH):
        levels = [draw.words(_LANE, start, _PREFETCH, level).tolist() for level in range(_LEVELS)]
        for offset, words in enumerate(zip(*levels, strict=True)):
            number = uniform(draw, _LANE, start + offset, words)
            yield _Number(number, number())
