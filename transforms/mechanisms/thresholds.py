"""Drawing a threshold R with weight q**R * N(R), exactly: what the joint mechanisms have in common.

For an integer loss, q**loss = (1 - q) * sum of q**R over the integers R >= loss. So an exponential mechanism with
weights q**loss is a mixture: draw R with weight q**R * N(R), where N(R) counts the answers of loss at most R, then one
of these uniformly. N never decreases, so on a block of thresholds its last value is an upper bound, and blocks that
are split where this bound is loose make an envelope to propose from; acceptance is decided exactly.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from flint import arb

from private_topk.transforms.mechanisms.bits import Draw
from private_topk.transforms.mechanisms.exact import Real, ball, floor, greater, precision, uniform

__all__ = ["Envelope", "Scaled", "Staircase", "draw_threshold", "rounded_up"]

_DIGITS = 64
_NEGLIGIBLE = 2**40  # exp(-this) is negligible beside any number of answers
_POSITION_LANE, _ACCEPT_LANE = 0, 1


class Scaled(NamedTuple):
    """The number mantissa * 2**exponent, both integers of any size: a float that never overflows."""

    mantissa: int
    exponent: int

    def ball(self) -> arb:
        """Its ball at the working precision."""
        return arb((self.mantissa, self.exponent))


class Staircase(abc.ABC):
    """The numbers N(R) of answers of loss at most R, for one loss on one vector of counts.

    Attributes:
        rate: the lambda of q = exp(-lambda), a positive rational.
        first: the least loss: N(R) >= 1 from here on.
        most: N(R) for every large R.
        settled: a *public* threshold from which on N(R) = most, where there is one.
        pieces: into how many pieces a loose block is cut; fewer where N is dear.
    """

    rate: Fraction
    first: int
    most: int
    settled: int | None = None
    pieces: int = 4

    @abc.abstractmethod
    def upper(self, thresholds: Sequence[int]) -> list[Scaled]:
        """An upper bound of N at each of the thresholds, all >= first.

        The closer the cheaper the draw, but any bound is right. It must be the same on every machine, since it steers.
        """

    @abc.abstractmethod
    def exact(self, threshold: int) -> arb:
        """The ball of N(threshold) at the working precision."""


@dataclass(frozen=True)
class _Block:
    """The thresholds first + start .. first + stop - 1; without `stop`, all from first + start."""

    start: int
    stop: int | None
    low: Scaled
    high: Scaled
    weight: Scaled


class Envelope:
    """Blocks of thresholds whose integer weights bound the mixture's mass: weights[i] * 2**exponent >= mass of block i.

    Masses are in units where the threshold R weighs (1 - q) q**(R - first) N(R), so that all thresholds together weigh
    the sum over all answers of q**(loss - first): at least 1. At least about half of all proposals are accepted.
    """

    def __init__(self, stairs: Staircase) -> None:
        self._stairs = stairs
        self._long, self._negligible = int(_DIGITS / stairs.rate), int(_NEGLIGIBLE / stairs.rate)
        self._blocks = self._initial_blocks()
        while True:
            self.weights, self.exponent = _common_scale([block.weight for block in self._blocks])
            gaps = [_gap(block, w) for block, w in zip(self._blocks, self.weights, strict=True)]
            if 2 * sum(gaps) <= sum(self.weights):
                break
            least = _least_to_cut(gaps, sum(self.weights))
            self._split([gap >= least for gap in gaps])
        self.total = sum(self.weights)

    def propose(self, draw: Draw, number: int) -> int | None:
        """Proposal `number` of this draw: a threshold, or None where it is rejected."""
        index, block = self._pick(draw.below(self.total))
        threshold = self._stairs.first + self._position(draw, number, block)

        def probability() -> arb:
            envelope = Scaled(self.weights[index], self.exponent).ball()
            return self._stairs.exact(threshold) * self._mass(block.start, block.stop) / envelope

        return threshold if greater(probability, uniform(draw, _ACCEPT_LANE, number)) else None

    def _pick(self, ticket: int) -> tuple[int, _Block]:
        ends = itertools.accumulate(self.weights)
        index = next(i for i, end in enumerate(ends) if ticket < end)
        return index, self._blocks[index]

    def _position(self, draw: Draw, number: int, block: _Block) -> int:
        """An exact geometric draw, kept inside the block: the inverse distribution function at a uniform real."""
        if block.stop == block.start + 1:
            return block.start
        u = uniform(draw, _POSITION_LANE, number)

        def offset() -> arb:
            rate = ball(self._stairs.rate)
            inside = -u() if block.stop is None else u() * (-rate * (block.stop - block.start)).expm1()
            # Without an end 1 - u is as uniform as u.
            return -inside.log1p() / rate

        return block.start + floor(offset)

    def _mass(self, start: int, stop: int | None) -> arb:
        """(1 - q) * sum of q**x over start <= x < stop."""
        rate = ball(self._stairs.rate)
        before = (-rate * start).exp()
        return before if stop is None else before * -(rate * (start - stop)).expm1()

    def _initial_blocks(self) -> list[_Block]:
        """Doubling blocks up to a public bound, so that their number tells nothing of the counts.

        Without a public settled threshold the bound is one beyond which the mass, at most most * q**bound, is below
        2**-12.
        """
        stairs = self._stairs
        if stairs.settled is not None:
            bound = stairs.settled - stairs.first
        else:
            # exp(-0.7) < 1/2, so q**bound < 2**-(bits + 12).
            bound = -int(-Fraction(7, 10) * (stairs.most.bit_length() + 12) // stairs.rate)
        step = max(1, int(1 / stairs.rate))
        cuts = [0]
        while cuts[-1] < bound:
            cuts.append(min(bound, cuts[-1] + max(step, cuts[-1])))
        tail = Scaled(stairs.most, 0)
        return [*self._between([cuts]), self._block(bound, None, tail, tail)]

    def _between(self, cuts: Iterable[Sequence[int]]) -> list[_Block]:
        """The blocks from each cut to the next, for each sequence of cuts."""
        pairs = [pair for some in cuts for pair in itertools.pairwise(some)]
        first = self._stairs.first
        bounds = self._stairs.upper([first + x for start, stop in pairs for x in (start, stop - 1)])
        return [self._block(*pair, *bounds[2 * i : 2 * i + 2]) for i, pair in enumerate(pairs)]

    def _block(self, start: int, stop: int | None, low: Scaled, high: Scaled) -> _Block:
        return _Block(start, stop, low, high, rounded_up(lambda: high.ball() * self._mass_bound(start, stop)))

    def _mass_bound(self, start: int, stop: int | None) -> arb:
        """The mass, or more where its exact value would ask for absurd precision."""
        if start > self._negligible:
            return arb(-_NEGLIGIBLE).exp()
        return self._mass(start, None if stop is None or stop - start > self._long else stop)

    def _split(self, chosen: list[bool]) -> None:
        """Cut the chosen blocks into pieces. A block of one threshold and the tail have no gap: never chosen."""
        old = [block for block, cut in zip(self._blocks, chosen, strict=True) if cut]
        kept = [block for block, cut in zip(self._blocks, chosen, strict=True) if not cut]
        self._blocks = kept + self._between([_cuts(block, self._stairs.pieces) for block in old])


def draw_threshold(stairs: Staircase, draw: Draw) -> int:
    """A threshold R with probability proportional to q**R * N(R), exactly. Cost: 20 to 200 values of N."""
    envelope = Envelope(stairs)
    proposals = (envelope.propose(draw, number) for number in itertools.count())
    return next(threshold for threshold in proposals if threshold is not None)


def rounded_up(value: Real) -> Scaled:
    """The least 64-digit binary float that is at least a positive real: the same on every machine."""
    bits = 96
    while True:
        with precision(bits):
            number = value()
            if number > 0:
                mantissa, exponent = number.mid().man_exp()
                start = int(exponent) + int(mantissa).bit_length() - _DIGITS
                for shift in (start, start + 1, start - 1):
                    scaled = (number * arb((1, -shift))).ceil().unique_fmpz()
                    if scaled is not None and 1 << (_DIGITS - 1) < int(scaled) <= 1 << _DIGITS:
                        return Scaled(int(scaled), shift)
        bits *= 2


def _common_scale(weights: list[Scaled]) -> tuple[list[int], int]:
    """Integers w and an exponent e with w * 2**e >= weight, rounded up, the largest having 64 digits."""
    exponent = max(weight.exponent for weight in weights)
    return [-(-weight.mantissa >> min(exponent - weight.exponent, 2 * _DIGITS)) for weight in weights], exponent


def _least_to_cut(gaps: list[int], total: int) -> int:
    """The gap such that without it and all larger ones a quarter of the total would be left."""
    rest = sum(gaps)
    for gap in sorted(gaps, reverse=True):
        rest -= gap
        if 4 * rest <= total:
            break
    return gap


def _cuts(block: _Block, pieces: int) -> list[int]:
    """A block's ends, and the places between them that cut it into equal pieces."""
    width = block.stop - block.start
    pieces = min(pieces, width)
    return [block.start + width * i // pieces for i in range(pieces + 1)]


def _gap(block: _Block, weight: int) -> int:
    """About how much of a block's weight may be above its true mass. It only steers, so it need not be a bound."""
    if block.stop is None or block.stop == block.start + 1:
        return 0
    shift = block.high.exponent - block.low.exponent
    low, high = block.low.mantissa, block.high.mantissa
    sure = weight * low // (high << shift) if shift >= 0 else (weight * low << -shift) // high
    return max(0, weight - sure)
