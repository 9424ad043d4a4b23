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
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from math import isqrt
from typing import Protocol

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import of_exponential
from private_topk.transforms.mechanisms.exact.reals import ball, greater, precision, uniform

_LANE = 0
_PRECISION = 96
_PREFETCH = 256
_SMALL, _LARGE = 1 << 40, 2**64 - 2**40  # beyond them a double knows too little of a word, or makes 1 of it
_ACCURATE, _NEXT, _TINIEST = 56, 2.0**-51, math.ulp(0.0)
_ROUNDING = 2.0**-50  # relative, of a few operations on doubles


class Region(Protocol):
    """A set of answers."""

    @property
    def least_loss(self) -> int:
        """The smallest loss of its answers, at least 0."""

    def size(self) -> arb:
        """The number of answers, at least 1, as a ball at the working precision."""

    def split(self) -> tuple[Region, Region] | None:
        """Two parts, neither of them empty; None where all answers have the same loss."""

    def draw_ranks(self, draw: Draw) -> NDArray[np.int64]:
        """A uniform answer, as ranks from 0, of a region that does not split."""


class Losses(Protocol):
    """Answers by their integer loss, the least of which is 0."""

    @property
    def most(self) -> int:
        """The largest loss."""

    def number(self, loss: int) -> arb:
        """How many answers lose at most this, as a ball at the working precision."""

    def around(self, loss: int) -> tuple[int, int]:
        """The largest loss of an answer up to this one, and the least beyond."""

    def draw_between(self, below: int | None, most: int, draw: Draw) -> NDArray[np.int64]:
        """A uniform answer, as ranks, of those that lose at most `most` and, unless it is None, more than `below`."""


@dataclass(frozen=True)
class LossInterval:
    """The answers that lose least_loss .. most_loss, both the loss of some answer; `below` is the next smaller, if any.

    It splits in the middle of the logarithms, so that intervals are found fast on every scale.
    """

    losses: Losses
    below: int | None
    least_loss: int
    most_loss: int

    @classmethod
    def of_all(cls, losses: Losses) -> LossInterval:
        return cls(losses, None, 0, losses.most)

    def size(self) -> arb:
        """The number of its answers, which is at least 1 however wide the ball of the difference is."""
        number = self.losses.number(self.most_loss)
        return number if self.below is None else (number - self.losses.number(self.below)).max(arb(1))

    def split(self) -> tuple[LossInterval, LossInterval] | None:
        if self.least_loss == self.most_loss:
            return None
        middle = isqrt(max(1, self.least_loss) * self.most_loss)
        cut, beyond = self.losses.around(min(middle, self.most_loss - 1))
        return (
            LossInterval(self.losses, self.below, self.least_loss, cut),
            LossInterval(self.losses, cut, beyond, self.most_loss),
        )

    def draw_ranks(self, draw: Draw) -> NDArray[np.int64]:
        return self.losses.draw_between(self.below, self.most_loss, draw)


class Race:
    """A race of all answers, of which regions are a partition.

    Args:
        regions: a partition of all answers.
        rate: what one unit of loss weighs in units of the noise.
        noise: the name of a standard noise, not the Gaussian.
        draw: its addressed words of lane 0 are used; the sequential ones are left to the caller.

    Attributes:
        splits: how many regions were split so far.
    """

    def __init__(self, regions: Sequence[Region], rate: Fraction, noise: str, draw: Draw) -> None:
        self.splits, self._uniforms = 0, _uniforms(draw)
        with precision(_PRECISION):
            self._runners = _Runners(of_exponential(noise), rate)
            started = self._runners.started
            # Those that could win by most first: by the upper bound of the score, numbered as tuples want it.
            self._entries: list[tuple[float, int, _Entry]] = []
            for number, region in enumerate(regions):
                entry = started(region, region.size(), next(self._uniforms))
                heapq.heappush(self._entries, (-entry.most, -number, entry))

    def winner(self) -> Region:
        """The region of equal losses that holds the answer of largest noise - rate * loss; uniform within the region.

        Returns:
            A region whose `split()` is None. Cost: some tens to hundreds of splits, about 10 microseconds each beside
            `size`.
        """
        self.run()
        with precision(_PRECISION):
            return self._entries[self._leader()][2].region

    def run(self, most: float = math.inf) -> None:
        """Split regions until the winner is known, or so many more."""
        entries, runners, end = self._entries, self._runners, self.splits + most
        with precision(_PRECISION):  # enough for nearly every decision; `greater` takes more by itself
            while self.splits < end:
                place = self._leader()
                leader = entries[place][2]
                if (parts := leader.region.split()) is None:
                    break
                self.splits += 1
                heir, other = parts
                size, others = heir.size(), other.size()
                if not _holds_the_first(heir, size, leader, next(self._uniforms)):
                    heir, other, size, others = other, heir, others, size
                entry = _Entry(heir, size, leader.clock, leader.low, leader.high, runners)
                if place:
                    entries[place] = (-entry.most, self.splits, entry)
                    heapq.heapify(entries)
                else:
                    heapq.heapreplace(entries, (-entry.most, self.splits, entry))
                entry = runners.started(other, others, next(self._uniforms), leader.clock)
                heapq.heappush(entries, (-entry.most, -self.splits, entry))

    def _leader(self) -> int:
        """The place of the region that could win by most: the first, unless the bounds of others reach into its own."""
        entries = self._entries
        least, number = -entries[0][2].least, len(entries)
        if (number < 2 or entries[1][0] >= least) and (number < 3 or entries[2][0] >= least):
            return 0
        best, near = 0, [1, 2]
        while near:
            place = near.pop()
            if place < number and entries[place][0] < least:
                near += [2 * place + 1, 2 * place + 2]
                if greater(entries[place][2].score, entries[best][2].score):
                    best = place
        return best


class _Clock:
    """When a region's first clock rings: Exp / size after another one, if any."""

    __slots__ = ("_after", "_known", "_number", "_precision", "_region")

    def __init__(self, region: Region, number: _Uniform, after: _Clock | None, known: arb) -> None:
        self._region, self._number, self._after = region, number, after
        self._known, self._precision = known, ctx.prec

    def time(self) -> arb:
        """The real; kept at the precision of the last call."""
        if ctx.prec != self._precision:
            waits = -self._number.real().log() / self._region.size()
            self._known = waits if self._after is None else self._after.time() + waits
            self._precision = ctx.prec
        return self._known


class _Entry:
    """A region in the heap.

    `low` and `high` are doubles between which the noise of its clock lies, `least` and `most` those of its score.
    """

    __slots__ = ("_runners", "clock", "high", "least", "low", "most", "region", "size")

    def __init__(self, region: Region, size: arb, clock: _Clock, low: float, high: float, runners: _Runners) -> None:
        self.region, self.size, self.clock, self.low, self.high = region, size, clock, low, high
        self._runners = runners
        loss = region.least_loss
        if loss:
            least, most = runners.least_rate * loss, runners.most_rate * loss
            low -= most + _ROUNDING * (most + abs(low))
            high -= least - _ROUNDING * (least + abs(high))
        self.least, self.most = low, high

    def score(self) -> arb:
        runners = self._runners
        return runners.noise(self.clock.time()) - ball(runners.rate) * self.region.least_loss


class _Runners:
    """What the entries of one race share."""

    def __init__(self, noise: Callable[[arb], arb], rate: Fraction) -> None:
        self.noise, self.rate = noise, rate
        self.least_rate, self.most_rate = _bounds(ball(rate))

    def started(self, region: Region, size: arb, number: _Uniform, after: _Clock | None = None) -> _Entry:
        """A region whose first clock rings Exp / size after that time."""
        known = -number.ball.log() / size
        if after is not None:
            known += after.time()
        return _Entry(region, size, _Clock(region, number, after, known), *_bounds(self.noise(known)), self)


class _Uniform:
    """The uniform at an index of the keystream: its ball from one word, and the real."""

    __slots__ = ("_draw", "_index", "ball")

    def __init__(self, draw: Draw, index: int, word: int) -> None:
        self._draw, self._index = draw, index
        # A double is off by 2**-54 at most, and the digits after the first word by 2**-64.
        self.ball = arb(word * 2.0**-64, 2.0**-53) if _SMALL <= word < _LARGE else self.real()

    def real(self) -> arb:
        return uniform(self._draw, _LANE, self._index)()


def _bounds(value: arb) -> tuple[float, float]:
    """Doubles between which it lies."""
    if value.rel_accuracy_bits() > _ACCURATE:
        middle = float(value)
        margin = _NEXT * abs(middle) + _TINIEST  # some times what the ball and rounding to a double are off by
        return middle - margin, middle + margin
    # One step outwards covers the rounding.
    return math.nextafter(float(value.lower()), -math.inf), math.nextafter(float(value.upper()), math.inf)


def _holds_the_first(part: Region, size: arb, leader: _Entry, number: _Uniform) -> bool:
    """Whether the answer that rings first in the leader's region is one of the part's, which are `size`."""
    ticket = number.ball * leader.size
    if size > ticket or size < ticket:
        return bool(size > ticket)
    whole = leader.region
    return greater(part.size, lambda: number.real() * whole.size())


def _uniforms(draw: Draw) -> Iterator[_Uniform]:
    """The uniforms at index 0, 1, 2, ..., their first words fetched many at a time."""
    for start in count(0, _PREFETCH):
        for offset, word in enumerate(draw.words(_LANE, start, _PREFETCH).tolist()):
            yield _Uniform(draw, start + offset, word)
