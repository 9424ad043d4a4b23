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
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpz

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.reals import ball, floor, greater, uniform
from private_topk.transforms.mechanisms.exact.scaled import LOG2_E, ONE, Scaled, rounded_up, whole_numbers

__all__ = ["Envelope", "Staircase", "draw_threshold"]

_POSITION_LANE, _ACCEPT_LANE = 0, 1
_DIGITS = 64
_ROOTS = [int(fmpz(2 ** (256 * _DIGITS - i)).root(256)) + 1 for i in range(256)]  # just above 2**(64 - i / 256)


class Staircase(abc.ABC):
    """The numbers N(R) of answers of loss at most R, for one loss on one vector of counts.

    Attributes:
        rate: the lambda of q = exp(-lambda), a positive rational.
        first: the least loss: N(R) >= 1 from here on.
        most: N(R) for every large R.
        settled: a *public* threshold from which on N(R) = most, where there is one.
        fineness: each block to begin with is longer than the one before by this part. A finer start than need be makes
            easy counts take nearly as long as hard ones; 1 is the cheapest.
        pieces: into how many pieces a loose block is cut. 2 asks for the fewest values of N, 4 for fewer calls.
    """

    rate: Fraction
    first: int
    most: int
    settled: int | None = None
    fineness: int = 6
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
    """The thresholds first + start .. first + stop - 1; without `stop`, all from first + start.

    `below` bounds N just before the block and `bound` at its end. `weight` bounds the block's mass, of which `loose`,
    in units of 2**-64, may be missing; this only steers.
    """

    start: int
    stop: int | None
    below: Scaled
    bound: Scaled
    weight: Scaled
    loose: int


class Envelope:
    """Blocks of thresholds whose integer weights bound the mixture's mass: weights[i] * 2**exponent >= mass of block i.

    Masses are in units where the threshold R weighs (1 - q) q**(R - first) N(R), so that all thresholds together weigh
    the sum over all answers of q**(loss - first): at least 1. About half of all proposals are accepted, never fewer
    than about a quarter.
    """

    def __init__(self, stairs: Staircase) -> None:
        self.stairs = stairs
        self._steps = 256 * LOG2_E * stairs.rate
        self._long = int(_DIGITS / stairs.rate)
        self._widths: dict[int, Scaled] = {}
        self._blocks = self._initial_blocks()
        while True:
            self.weights, self.exponent = whole_numbers([block.weight for block in self._blocks])
            self.total = sum(self.weights)
            gaps = [weight * block.loose >> _DIGITS for block, weight in zip(self._blocks, self.weights, strict=True)]
            if 4 * sum(gaps) <= 3 * self.total:
                break
            self._cut(gaps, _least_to_cut(gaps, self.total))

    def propose(self, draw: Draw, number: int) -> int | None:
        """Proposal `number` of this draw: a threshold, or None where it is rejected."""
        ticket = draw.below(self.total)
        index = next(i for i, end in enumerate(itertools.accumulate(self.weights)) if ticket < end)
        block = self._blocks[index]
        threshold = self.stairs.first + self._position(draw, number, block)

        def probability() -> arb:
            mass = self.stairs.exact(threshold) * self._mass(block.start, block.stop)
            return mass / Scaled(self.weights[index], self.exponent).ball()

        return threshold if greater(probability, uniform(draw, _ACCEPT_LANE, number)) else None

    def _position(self, draw: Draw, number: int, block: _Block) -> int:
        """An exact geometric draw, kept inside the block: the inverse distribution function at a uniform real."""
        if block.stop == block.start + 1:
            return block.start
        u = uniform(draw, _POSITION_LANE, number)

        def offset() -> arb:
            rate = ball(self.stairs.rate)
            inside = -u() if block.stop is None else u() * (rate * (block.start - block.stop)).expm1()
            # Without an end 1 - u is as uniform as u.
            return -inside.log1p() / rate

        return block.start + floor(offset)

    def _mass(self, start: int, stop: int | None) -> arb:
        """(1 - q) * sum of q**x over start <= x < stop."""
        rate = ball(self.stairs.rate)
        after = (-rate * start).exp()
        return after if stop is None else after * -(rate * (start - stop)).expm1()

    def _initial_blocks(self) -> list[_Block]:
        """Growing blocks up to a public bound, so that their number tells nothing of the counts.

        Without a public settled threshold the bound is one beyond which the mass, at most most * q**bound, is below
        2**-12.
        """
        stairs = self.stairs
        if stairs.settled is not None:
            bound = stairs.settled - stairs.first
        else:
            # exp(-0.7) < 1/2, so q**bound < 2**-(bits + 12).
            bound = -int(-Fraction(7, 10) * (stairs.most.bit_length() + 12) // stairs.rate)
        step = max(1, int(1 / (stairs.rate * stairs.fineness)))
        cuts = [0]
        while cuts[-1] < bound:
            cuts.append(min(bound, cuts[-1] + max(step, cuts[-1] // stairs.fineness)))
        tail = Scaled(stairs.most, 0)
        return [*self._between([(ONE, cuts)]), self._block(bound, None, tail, tail)]

    def _cut(self, gaps: list[int], least: int) -> None:
        """Cut the blocks with a gap of at least `least` > 0: never a block of one threshold, never the tail."""
        loose = [block for block, gap in zip(self._blocks, gaps, strict=True) if gap >= least]
        kept = [block for block, gap in zip(self._blocks, gaps, strict=True) if gap < least]
        self._blocks = kept + self._between([(block.below, _cuts(block, self.stairs.pieces)) for block in loose])

    def _between(self, parts: Sequence[tuple[Scaled, list[int]]]) -> list[_Block]:
        """The blocks from each cut to the next, for each (N before the first cut, cuts)."""
        stops = [stop for _, cuts in parts for stop in cuts[1:]]
        bounds = iter(self.stairs.upper([self.stairs.first + stop - 1 for stop in stops]))
        blocks = []
        for below, cuts in parts:
            for start, stop in itertools.pairwise(cuts):
                bound = next(bounds)
                blocks.append(self._block(start, stop, below, bound))
                below = bound
        return blocks

    def _block(self, start: int, stop: int | None, below: Scaled, bound: Scaled) -> _Block:
        after, width = self._power(start), self._width(start, stop)
        mantissa = bound.mantissa * after.mantissa * width.mantissa
        weight = Scaled(mantissa, bound.exponent + after.exponent + width.exponent).shortened()
        loose = 0
        if stop is not None and stop > start + 1:
            loose = max(0, (1 << _DIGITS) - _quotient(below, bound))
        return _Block(start, stop, below, bound, weight, loose)

    def _power(self, start: int) -> Scaled:
        """q**start, rounded up by at most 0.3 percent: integers only, since every block needs one."""
        steps = start * self._steps.numerator // self._steps.denominator
        return Scaled(_ROOTS[steps % 256], -_DIGITS - steps // 256)

    def _width(self, start: int, stop: int | None) -> Scaled:
        """1 - q**(stop - start), rounded up."""
        if stop is None or stop - start > self._long:
            return ONE
        width = stop - start
        if width not in self._widths:
            self._widths[width] = rounded_up(lambda: -(ball(self.stairs.rate) * -width).expm1())
        return self._widths[width]


def draw_threshold(envelope: Envelope, draw: Draw) -> int:
    """A threshold R with probability proportional to q**R * N(R), exactly. Cost: about two values of N."""
    proposals = (envelope.propose(draw, number) for number in itertools.count())
    return next(threshold for threshold in proposals if threshold is not None)


def _quotient(small: Scaled, large: Scaled) -> int:
    """About small / large in units of 2**-64."""
    shift = small.exponent - large.exponent + _DIGITS
    return (small.mantissa << shift if shift >= 0 else small.mantissa >> -shift) // large.mantissa


def _least_to_cut(gaps: list[int], total: int) -> int:
    """The gap such that without it and all larger ones three eighths of the total would be left."""
    rest = sum(gaps)
    for gap in sorted(gaps, reverse=True):
        rest -= gap
        if 8 * rest <= 3 * total:
            break
    return gap


def _cuts(block: _Block, pieces: int) -> list[int]:
    """A block's ends, and the places between them that cut it into equal pieces."""
    assert block.stop is not None, "the tail is never cut"
    width = block.stop - block.start
    pieces = min(pieces, width)
    return [block.start + width * i // pieces for i in range(pieces + 1)]
