"""Drawing a threshold R with weight q**R * N(R), exactly: what the joint mechanisms have in common.

For an integer loss, q**loss = (1 - q) * sum of q**R over the integers R >= loss. So an exponential mechanism with
weights q**loss is a mixture: draw R with weight q**R * N(R), where N(R) counts the answers of loss at most R, then one
of these uniformly. N never decreases, so on a block of thresholds its last value is an upper bound, and blocks that
are split where this bound is loose make an envelope to propose from; acceptance is decided exactly.

Example: one of the counts 5, 3, 3, 0, and q = 1/2. The losses are 0, 2, 2, 5, so N is 1 at R = 0 and 1, is 3 at 2, 3
and 4, and 4 from 5 on. The thresholds weigh 1, 1/2 | 3/4, 3/8, 3/16 | 4/32 + 4/64 + ... = 1/4. The first item is drawn
with weight 1 + 1/2 + (3/4 + 3/8 + 3/16) / 3 + 1/4 / 4 = 2, the second with 21/16 / 3 + 1/16 = 1/2, the last with 1/16:
in proportion to q**0, q**2 and q**5, as it should be. An envelope that starts with the blocks [0, 5) and [5, ...) knows
of the first one only that N is at most 3 there: a mass of at most 3 (1 + ... + 1/16) = 5.8 for the true 2.8. Cut at 2,
that is 3/2 + 21/16 and nothing is left to reject; cut at 3 it is 21/4 + 9/16, of which the first part stays loose.
"""

from __future__ import annotations

import abc
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import CountLookup, Histogram
from private_topk.transforms.mechanisms.exact.reals import (
    NO_END,
    Magnitudes,
    Powers,
    Scaled,
    ball,
    floor,
    greater,
    uniform,
)

__all__ = ["AnswersByLoss", "Envelope", "Sequences", "draw_threshold"]

Indices = NDArray[np.int64]
Whole = NDArray[Any]
"""Whole numbers: int64, or Python's own where these are too small."""

_POSITION_LANE, _ACCEPT_LANE = 0, 1
_DIGITS = 50
_ONE = Magnitudes(np.ones(1), np.zeros(1, np.int64))
_FIRST_PLACE = np.zeros(1, np.int64)
_LARGE = 1 << 56
_FINENESS = 6  # blocks to begin with grow by this part: a finer start makes easy counts as slow as hard ones
_PIECES = 4  # of a loose block, at least: 2 would ask for fewer values of N, in more calls
_AT_ONCE = 1 << 20  # look-ups held in memory
_FACTORS = 256
_MOST_ASKED = 300


class AnswersByLoss(abc.ABC):
    """The numbers N(R) of answers of loss at most R, for one loss on one vector of counts.

    Attributes:
        rate: the lambda of q = exp(-lambda), a positive rational.
        first: the least loss: N(R) >= 1 from here on.
        most: N(R) for every large R.
        settled: a *public* threshold from which on N(R) = most, where there is one.
        asked: for how many values of N an envelope asks at least, some of them for nothing where the counts are easy.
    """

    rate: Fraction
    first: int
    most: int
    settled: int | None = None
    asked: int = 0

    @abc.abstractmethod
    def upper(self, thresholds: Whole) -> Magnitudes:
        """Upper bounds of N at the thresholds, all >= first; shape (n,), of int64 or of Python's integers.

        The closer the cheaper the draw, but any bound is right. It must be the same on every machine, since it steers.
        """

    @abc.abstractmethod
    def exact(self, threshold: int) -> arb:
        """The ball of N(threshold) at the working precision."""


class Envelope:
    """Blocks of thresholds whose integer weights bound the mixture's mass: weights[i] * 2**exponent >= mass of block i.

    Masses are in units where the threshold R weighs (1 - q) q**(R - first) N(R), so that all thresholds together weigh
    the sum over all answers of q**(loss - first): at least 1. About half of all proposals are accepted, never fewer
    than about a quarter.
    """

    def __init__(self, answers: AnswersByLoss) -> None:
        self.answers = answers
        self._powers = Powers(answers.rate)
        ends = self._first_cuts()
        # Up to here 64 bits hold sums and small multiples of thresholds.
        kind = np.int64 if ends[-1] + abs(answers.first) < _LARGE else object
        cuts = np.array(ends, kind)
        tail, no_end = Magnitudes.above(answers.most), np.array([NO_END], kind)
        self._asked = 0
        first = self._between(cuts[:-1], cuts[1:], _FIRST_PLACE, _ONE)
        self._blocks = _Blocks.joined(first, self._block(cuts[-1:], no_end, tail, tail))
        while True:
            self.weights, self.exponent = self._blocks.whole_weights()
            self.total = int(self.weights.sum())
            gaps = (self.weights * self._blocks.loose()).astype(np.int64)
            if 4 * int(gaps.sum()) <= 3 * self.total:
                break
            self._cut(gaps >= _least_to_cut(gaps, self.total))
        self._ends = np.cumsum(self.weights)
        while self._asked < answers.asked:
            some = cuts[1:][: answers.asked - self._asked]  # more at once leave the processor's cache
            answers.upper(some + (answers.first - 1))
            self._asked += len(some)

    def propose(self, draw: Draw, number: int) -> int | None:
        """Proposal `number` of this draw: a threshold, or None where it is rejected."""
        index = int(self._ends.searchsorted(draw.below(self.total), "right"))
        start, stop = int(self._blocks.starts[index]), int(self._blocks.stops[index])
        threshold = self.answers.first + self._position(draw, number, start, stop)

        def probability() -> arb:
            mass = self.answers.exact(threshold) * self._mass(start, stop)
            return mass / Scaled(int(self.weights[index]), self.exponent).ball()

        return threshold if greater(probability, uniform(draw, _ACCEPT_LANE, number)) else None

    def _position(self, draw: Draw, number: int, start: int, stop: int) -> int:
        """An exact geometric draw, kept inside the block: the inverse distribution function at a uniform real."""
        if stop == start + 1:
            return start
        u = uniform(draw, _POSITION_LANE, number)

        def offset() -> arb:
            rate = ball(self.answers.rate)
            inside = -u() if stop == NO_END else u() * (rate * (start - stop)).expm1()
            # Without an end 1 - u is as uniform as u.
            return -inside.log1p() / rate

        return start + floor(offset)

    def _mass(self, start: int, stop: int) -> arb:
        """(1 - q) * sum of q**x over start <= x < stop."""
        rate = ball(self.answers.rate)
        after = (-rate * start).exp()
        return after if stop == NO_END else after * -(rate * (start - stop)).expm1()

    def _first_cuts(self) -> list[int]:
        """Where growing blocks up to a public bound end, so that their number tells nothing of the counts.

        Without a public settled threshold the bound is one beyond which the mass, at most most * q**bound, is below
        2**-12.
        """
        answers = self.answers
        if answers.settled is not None:
            bound = answers.settled - answers.first
        else:
            # exp(-0.7) < 1/2, so q**bound < 2**-(bits + 12).
            bound = -int(-Fraction(7, 10) * (answers.most.bit_length() + 12) // answers.rate)
        step = max(1, int(1 / (answers.rate * _FINENESS)))
        cuts = [0]
        while cuts[-1] < bound:
            cuts.append(min(bound, cuts[-1] + max(step, cuts[-1] // _FINENESS)))
        return cuts

    def _cut(self, loose: NDArray[np.bool_]) -> None:
        """Cut some blocks: never a block of one threshold, never the tail."""
        whole = self._blocks.at(np.flatnonzero(loose))
        starts, stops, firsts = whole.cut(_PIECES)
        rest = self._blocks.at(np.flatnonzero(~loose))
        self._blocks = _Blocks.joined(rest, self._between(starts, stops, firsts, whole.below))

    def _between(self, starts: Whole, stops: Whole, firsts: Indices, below: Magnitudes) -> _Blocks:
        """Blocks in rows, each of which begins where the one before ended, but for the first of a row.

        `below` bounds N before those, whose places are `firsts`.
        """
        self._asked += len(stops)
        bounds = self.answers.upper(stops + (self.answers.first - 1))
        return self._block(starts, stops, bounds.moved(firsts, below), bounds)

    def _block(self, starts: Whole, stops: Whole, below: Magnitudes, bounds: Magnitudes) -> _Blocks:
        masses = self._powers.falling(starts).times(self._powers.widths(starts, stops))
        return _Blocks(starts, stops, below, bounds, bounds.times(masses))


@dataclass(eq=False)
class _Blocks:
    """Block i has the thresholds first + starts[i] .. first + stops[i] - 1, and all from its start where it has NO_END.

    `below` bounds N just before a block and `bounds` at its end. `weights` bound the blocks' masses, but for some
    rounding.
    """

    starts: Whole
    stops: Whole
    below: Magnitudes
    bounds: Magnitudes
    weights: Magnitudes

    @classmethod
    def joined(cls, first: _Blocks, second: _Blocks) -> _Blocks:
        return cls(
            np.concatenate((first.starts, second.starts)),
            np.concatenate((first.stops, second.stops)),
            Magnitudes.joined(first.below, second.below),
            Magnitudes.joined(first.bounds, second.bounds),
            Magnitudes.joined(first.weights, second.weights),
        )

    def at(self, places: Indices) -> _Blocks:
        return _Blocks(self.starts[places], self.stops[places], self.below.at(places), self.bounds.at(places),
                       self.weights.at(places))  # fmt: skip

    def whole_weights(self) -> tuple[Indices, int]:
        """Integers and an exponent: rounded up by more than all roundings before can have taken away."""
        top = int(self.weights.exponents.max())
        shifts = np.maximum(self.weights.exponents - top, -200) + _DIGITS
        return (np.ldexp(self.weights.mantissas * (1 + 2.0**-40), shifts)).astype(np.int64) + 1, top - _DIGITS

    def loose(self) -> NDArray[np.float64]:
        """Which part of the weights may be missing from the masses; this only steers."""
        wide = (self.stops > self.starts + 1).astype(np.bool_)
        return np.where(wide, np.maximum(0.0, 1 - self.below.over(self.bounds)), 0.0)

    def cut(self, least: int) -> tuple[Whole, Whole, Indices]:
        """Each block cut into equal pieces, `least` or more where N grows by many powers of two.

        Returns:
            The pieces' starts and stops, shape (n,), and the places of the first piece of each block.
        """
        growth = self.bounds.exponents - self.below.exponents
        widths = self.stops - self.starts
        pieces = np.minimum(widths, np.minimum(np.maximum(growth, least), 8 * least)).astype(np.int64)
        firsts = np.cumsum(pieces) - pieces
        numbers = np.arange(int(pieces.sum())) - np.repeat(firsts, pieces)
        starts, widths, pieces = (np.repeat(column, pieces) for column in (self.starts, widths, pieces))
        return starts + widths * numbers // pieces, starts + widths * (numbers + 1) // pieces, firsts


def draw_threshold(envelope: Envelope, draw: Draw) -> int:
    """A threshold R with probability proportional to q**R * N(R), exactly. Cost: about two values of N."""
    proposals = (envelope.propose(draw, number) for number in itertools.count())
    return next(threshold for threshold in proposals if threshold is not None)


def _least_to_cut(gaps: Indices, total: int) -> int:
    """The gap such that without it and all larger ones three sixteenths of the total would be left."""
    falling = np.sort(gaps)[::-1]
    rest = int(falling.sum()) - np.cumsum(falling)
    return int(falling[np.argmax(16 * rest <= 3 * total)])


class Sequences(AnswersByLoss):
    """Sequences (s_1 .. s_k) of ranks under the loss max_i of (b - a) c_i - a c_{s_i}, for a skew a/b in [1/2, 1].

    The item at place i of a sequence of loss at most R is one of the t_i(R) with a c_j >= (b - a) c_i - R. As c_i falls
    these sets grow, each holding the one before, so N(R) is the product of t_i(R) - (i - 1).

    With `settled` the loss is truncated there: every sequence has loss at most `settled`.
    """

    def __init__(
        self, histogram: Histogram, k: int, skew: Fraction, rate: Fraction, settled: int | None = None
    ) -> None:
        self.rate, self.settled = rate, settled
        # Counts far apart need about 60, counts next to each other up to 650; for a few items that takes no time.
        self.asked = min(k // 4, _MOST_ASKED)
        self._histogram, self._d, self._k = histogram, histogram.items, k
        self._lookup: CountLookup | None = None
        self._a, self._rest = skew.numerator, skew.denominator - skew.numerator
        # Beyond 64 bits the products of counts with a and b - a need Python's integers.
        kind = np.int64 if self._a * histogram.largest < 2**63 else object
        self._top = histogram.top(k).astype(kind)
        self.first = (self._rest - self._a) * int(self._top[-1])
        self._last = self._rest * int(self._top[0]) - self._a * histogram.smallest
        self.most = math.perm(self._d, k)

    def upper(self, thresholds: NDArray[Any]) -> Magnitudes:
        """N rounded up, by products of doubles in a fixed order: IEEE 754 defines each of them to the last bit."""
        rows = max(1, _AT_ONCE // self._k)
        if len(thresholds) <= rows:
            return self._upper(thresholds)
        parts = (thresholds[start : start + rows] for start in range(0, len(thresholds), rows))
        return Magnitudes.joined(*(self._upper(part) for part in parts))

    def _upper(self, thresholds: NDArray[Any]) -> Magnitudes:
        factors = np.subtract(self._reach(thresholds), self._taken[:, None], dtype=np.float64)
        exponents = np.zeros(len(thresholds), np.int64)
        size = self._d.bit_length()  # every product so far is below 2**size, and at least 2**-size
        while len(factors) > 1:
            if 2 * size > 1000:
                factors, shifts = np.frexp(factors)
                exponents += shifts.sum(axis=0)
                size = 1
            half, odd = divmod(len(factors), 2)
            np.multiply(factors[:half], factors[half : 2 * half], out=factors[:half])
            if odd:
                factors[half] = factors[-1]
            factors = factors[: half + odd]
            size *= 2
        # k products err by less than 2 k units in the last of 53 places.
        return Magnitudes.of(factors[0] * (1 + 4 * self._k * 2.0**-53), exponents)

    def exact(self, threshold: int) -> arb:
        """The ball of N(threshold) at the working precision."""
        factors = (self._reach(_one(threshold))[:, 0] - self._taken).tolist()
        # One product of k integers would take time in proportion to k squared.
        balls = (arb(math.prod(factors[start : start + _FACTORS])) for start in range(0, self._k, _FACTORS))
        return math.prod(balls, start=arb(1))

    def sample(self, threshold: int, draw: Draw) -> NDArray[np.int64]:
        """Ranks of a uniform sequence of loss at most the threshold: a Fisher-Yates shuffle whose pool grows."""
        partners = self._taken + draw.below_each(self._reach(_one(threshold))[:, 0] - self._taken)
        if len(np.unique(partners)) == self._k:
            return partners  # nobody trades places twice
        moved: dict[int, int] = {}
        ranks = []
        for place, partner in enumerate(partners.tolist()):
            ranks.append(moved.get(partner, partner))
            moved[partner] = moved.get(place, place)
        return np.array(ranks)

    def loss(self, ranks: NDArray[np.int64]) -> int:
        """The loss of a sequence, not truncated."""
        counts = self._histogram.counts_at(ranks).astype(self._top.dtype)
        return int((self._rest * self._top - self._a * counts).max())

    @cached_property
    def _taken(self) -> NDArray[np.int64]:
        return np.arange(self._k)

    @cached_property
    def _own(self) -> NDArray[Any]:
        """What the largest counts add to a loss, shape (k, 1)."""
        return (self._rest * self._top)[:, None]

    def _reach(self, thresholds: NDArray[Any]) -> NDArray[np.int64]:
        """t_i(R) for each place i and threshold R, shape (k, thresholds)."""
        if self._top.dtype == object:
            thresholds = thresholds.astype(object)
        least = self._own - np.minimum(thresholds, self._last).astype(self._top.dtype)
        if self._a > 1:
            least = -(-least // self._a)
        least = least.astype(np.int64, copy=False)
        reach = self._looked_up(int(least[-1].min())).at_least(least)
        if self.settled is not None:
            reach[:, (thresholds >= self.settled).astype(np.bool_)] = self._d
        return reach

    def _looked_up(self, least: int) -> CountLookup:
        """The counts down to `least`: the first thresholds asked for reach as far as most that follow."""
        least = max(0, least)
        if self._lookup is None or least < self._lookup.least:
            self._lookup = CountLookup(self._histogram, least)
        return self._lookup


def _one(threshold: int) -> NDArray[Any]:
    return np.array([threshold], np.int64 if abs(threshold) < 2**63 else object)
