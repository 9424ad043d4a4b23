"""Rounds of permute-and-flip over a histogram, each among the items left, in a few steps a round.

Permute-and-flip visits the items in random order and stops at one with probability p = exp(-rate (largest - count)).
A round is drawn as the first point of a Poisson process: items are proposed until one is kept.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from collections.abc import Iterator
from fractions import Fraction
from itertools import count

import numpy as np
from flint import arb

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Blocks, CountLookup, Histogram, Indices, even_cuts
from private_topk.transforms.mechanisms.exact.noise import float_rate
from private_topk.transforms.mechanisms.exact.reals import (
    LOG2_E,
    Real,
    ball,
    below_powers_of_two,
    greater,
    uniform,
)

_LANE = 0
_PREFETCH = 512
_MIN, _LATEST, _MAX = 1 << 44, 8.0, 16  # of a word, of v, and of the waits that it adds up
_ERROR = 2.0**-36
"""Relative, of a probability in floats, where no word of a wait is below `_MIN`, v is at most `_LATEST`, and it is
the sum of `_MAX` waits or fewer; elsewhere ball arithmetic decides. The digits of a wait that were not read move it by
at most 2**-44, and it is below 14: with all roundings 2**-43. So v is off by 2**-38, and so is the logarithm of the
probability. p is off by 2**-49, and where it is near 1 that moves p + (1 - p) exp(v) by exp(v) - 1 times as much, below
2**-37. A rate times a difference that matters is below 2**8: its roundings are 2**-44. The platform's exp and log are
taken to be wrong by 2**-50, eight times what any in use is."""
_DIGITS = 61
_COARSE, _SPARE = 16, 10
_MIN_COARSE_ITEMS = 1 << 24  # items from which on weights are made in two steps
_MIN_ARRAY_BLOCKS = 32  # blocks up to which Python's integers are quicker
_FINENESS = 4  # blocks in the counts that weigh a factor of e
_NEAR = 8  # such factors below the k-th count, within which nearly all proposals lie
_ROOTS = np.array([root + 1 for root in below_powers_of_two(_DIGITS)])  # above 2**(61 - i / 256)
_POWERS: list[int] = _ROOTS.tolist()
_BEYOND = 1 << 64


class FlipRounds:
    """The items not yet chosen.

    Args:
        histogram: all items.
        rate: what a count weighs.
        k: how many rounds there will be: the largest count left is always one of the k largest.
        draw: its words of lane 0 and its sequential bits are taken.
    """

    def __init__(self, histogram: Histogram, rate: Fraction, k: int, draw: Draw) -> None:
        self._histogram, self._rate, self._draw = histogram, rate, draw
        least = int(histogram.top(k)[-1])
        cuts = even_cuts(1 / (_FINENESS * rate), _FINENESS * _DIGITS, least)
        self._floor, self._reach = max(0, least - cuts[-1]), cuts[: _FINENESS * _NEAR][-1]
        self._counts = CountLookup(histogram, max(self._floor, least - self._reach))
        blocks = Blocks.of(histogram, k, cuts)
        self._exact = blocks.exact
        self._bounds, self._sizes, self._starts = blocks.bounds, blocks.sizes, blocks.starts
        self._value, self._start = blocks.bounds.tolist(), blocks.starts.tolist()
        self._left = blocks.sizes.tolist()
        self._float_rate = float_rate(rate)
        self._first = 0  # the place of the largest count left
        self._uniforms = _words(draw)
        self._moved: dict[int, int] = {}
        self._falling = (-blocks.bounds).tolist()
        self._items = histogram.items
        self._per_unit = rate.denominator, 10 * rate.numerator  # counts that weigh a tenth of a factor of e
        steps = 256 * LOG2_E * rate
        self._steps = steps.numerator, steps.denominator
        self._weigh()

    def next(self) -> int:
        """The rank of the winner of another round, which is taken out. Cost: some steps for each doubling of k."""
        place, rank = self._winner()
        left = self._left[place] - 1
        # A Fisher-Yates shuffle of the block's items, as far as it is drawn: the last of those left takes the place.
        last = self._start[place] + left
        self._moved[self._position] = self._moved.pop(last, last)
        self._left[place] = left
        if place < self._end:
            self._add(place - self._base, -self._weights[place - self._base])
        if not left and place == self._first:
            self._next_largest()
        return rank

    def _winner(self) -> tuple[int, int]:
        """The place and the rank of a round's winner."""
        # Say an item is visited at a uniform time t and flips its coin then. As long as it has not stopped the round,
        # it does so at rate p / (1 - p t), which in the time v = -log(1 - t) is p / (p + (1 - p) exp(v)), at most p. So
        # the winner is the first point of a Poisson process with that intensity. Points are proposed at a rate no less
        # than the sum of all p, by integer weights just above them, and thinned. An item of the largest count left is
        # nearly always kept, so that few proposals are needed, whatever the counts are.
        top = self._value[self._first]
        # The weights are in units of the largest count when they were made.
        raised = self._float_rate * (self._value[self._base] - top)
        unit = math.exp(raised) / self._unit
        total, waits = self._total + self._far_items * self._far_weight, list[int]()
        elapsed, accurate = 0.0, True
        while True:
            index, wait, flip = next(self._uniforms)
            waits.append(index)
            accurate = accurate and wait >= _MIN and len(waits) <= _MAX
            if accurate:  # v, by the exponential waits of a process of that rate
                elapsed -= math.log(wait * 2.0**-64) / (total * unit)
            place = self._propose(total)
            if place is None:
                continue
            rank = self._pick(place)
            count = self._value[place] if place < self._exact else self._count(rank)
            weight = self._weights[place - self._base] if place < self._end else self._far_weight
            # Counts 5, 3, 3, 0 at rate log 2 have p of 1, 1/4, 1/4 and 1/32. Proposals come at a rate of about 1.53,
            # the first at v = 0.65 on average: in 65 of 100 cases it is the 5, which wins; a 3 proposed at v = 0.65 is
            # kept with probability 1 / (1/4 + 3/4 exp(0.65)) = 0.59.
            if accurate and elapsed <= _LATEST:
                p = math.exp(self._float_rate * (count - top))
                chance = p / (weight * unit * (p + (1 - p) * math.exp(elapsed)))
                drawn = flip * 2.0**-64
                if abs(drawn - chance) > _ERROR * chance + 2.0**-60:
                    if drawn < chance:
                        return place, rank
                    continue
            if greater(self._chance(count, weight, total, waits), uniform(self._draw, _LANE, 2 * index + 1)):
                return place, rank

    def _pick(self, place: int) -> int:
        """A uniform item of those left of a block: its rank."""
        position = self._position = self._start[place] + self._draw.below(self._left[place])
        return self._moved.get(position, position)

    def _count(self, rank: int) -> int:
        """The count at a rank below the k-th, of any item: looked at further down only where that is asked for."""
        while rank >= self._counts.items and self._counts.least > self._floor:
            self._reach *= 2
            self._counts = CountLookup(self._histogram, max(self._floor, self._counts.least - self._reach))
        return self._counts.count_at(rank)

    def _chance(self, count: int, weight: int, total: int, waits: list[int]) -> Real:
        """The probability with which a proposal is kept, as an exact real."""
        top, base = self._value[self._first], self._value[self._base]
        waiting = [uniform(self._draw, _LANE, 2 * index) for index in waits]

        def value() -> arb:
            unit = (ball(self._rate) * (base - top)).exp() / self._unit
            p = (ball(self._rate) * (count - top)).exp()
            elapsed = -sum((u().log() for u in waiting), arb(0)) / (total * unit)
            return p / (weight * unit * (p + (1 - p) * elapsed.exp()))

        return value

    def _propose(self, total: int) -> int | None:
        """A block in proportion to its items' weights; None for an item that is no longer there."""
        ticket = self._draw.below(total)
        if ticket < self._total:
            return self._base + self._descend(ticket)
        number = self._items - self._far_items + (ticket - self._total) // self._far_weight
        place = int(np.searchsorted(self._starts, number, "right")) - 1
        return place if number - self._start[place] < self._left[place] else None

    def _next_largest(self) -> None:
        while self._first < self._exact and not self._left[self._first]:
            self._first += 1
        if self._first == self._exact:
            return
        fall = self._value[self._base] - self._value[self._first]
        if self._first >= self._end or fall > self._most_fall:
            self._weigh()

    def _weigh(self) -> None:
        """Make the weights anew, in units of the largest count's: integers above 2**digits exp(-rate difference).

        Blocks near the largest count left are in a Fenwick tree; those far below are one entry, at the weight of the
        largest among them.
        """
        self._base = self._first
        digits = self._digits()
        reach = 7 * (digits - _SPARE)  # tenths: 2 is less than exp(0.7)
        self._end = self._within(reach)
        self._far_items = self._items - self._next_start()
        # All far items together weigh at most one of the largest count, until the weights are made anew.
        self._most_fall = self._counts_in(max(reach - 7 * (self._far_items.bit_length() + 1), 40))
        self._plant(self._near_weights(digits), self._left[self._base : self._end])
        self._unit, self._far_weight = 1 << digits, 0
        if self._far_items:
            self._far_weight = self._power(self._value[self._base] - self._value[self._end], digits)

    def _digits(self) -> int:
        """How fine the weights may be for all items together to stay within 62 bits."""
        items = self._items
        if items < _MIN_COARSE_ITEMS:
            return _DIGITS - 2 - items.bit_length()
        # By coarse weights: the items beyond weigh less than 2 each in coarse units.
        self._end = self._within(10 * _COARSE)
        coarse = sum(map(operator.mul, self._near_weights(_COARSE), self._left[self._base : self._end]))
        beyond = items - self._next_start()
        return max(_DIGITS - 2 - max(0, (coarse + 2 * beyond).bit_length() - _COARSE), _SPARE + _COARSE)

    def _next_start(self) -> int:
        """The first rank beyond the weighed blocks."""
        return self._start[self._end - 1] + int(self._sizes[self._end - 1])

    def _within(self, reach: int) -> int:
        """The end of the blocks that lie within so many tenths of a unit of the rate below the largest one."""
        return bisect.bisect_right(self._falling, self._counts_in(reach) - self._value[self._base], self._base)

    def _counts_in(self, reach: int) -> int:
        """How many counts weigh at most exp(reach / 10), whole."""
        return reach * self._per_unit[0] // self._per_unit[1]

    def _near_weights(self, digits: int) -> list[int]:
        """Those of the blocks from the base to the end."""
        if self._end - self._base < _MIN_ARRAY_BLOCKS:
            top = self._value[self._base]
            return [self._power(top - value, digits) for value in self._value[self._base : self._end]]
        gaps = self._bounds[self._base] - self._bounds[self._base : self._end]
        return _powers(gaps, self._rate, digits).tolist()

    def _power(self, gap: int, digits: int) -> int:
        """An integer above 2**digits exp(-rate gap), by at most 0.3 percent and 1."""
        step = gap * self._steps[0] // self._steps[1]
        return (_POWERS[step & 255] >> min((step >> 8) + _DIGITS - digits, 62)) + 1

    def _plant(self, weights: list[int], left: list[int]) -> None:
        self._weights = weights
        if len(weights) == 1:  # counts far apart, of which each round takes one
            self._total, self._highest, self._planted = weights[0] * left[0], 1, 2
            self._tree = [0, self._total]
            return
        sums = list(itertools.accumulate(map(operator.mul, weights, left), initial=0))
        # A Fenwick tree: place i sums the last i & -i weights up to it.
        self._tree = [sums[i] - sums[i & (i - 1)] for i in range(len(sums))]
        self._total, self._highest, self._planted = sums[-1], 1 << (len(weights).bit_length() - 1), len(sums)
        # What no ticket reaches, so that a descent need not look where the tree ends.
        self._tree += [_BEYOND] * (2 * self._highest - len(sums))

    def _add(self, place: int, weight: int) -> None:
        self._total += weight
        place += 1
        tree, end = self._tree, self._planted
        while place < end:
            tree[place] += weight
            place += place & -place

    def _descend(self, ticket: int) -> int:
        """The place at which the sum of weights passes the ticket."""
        place, step, tree = 0, self._highest, self._tree
        while step:
            weight = tree[place + step]
            if weight <= ticket:
                place += step
                ticket -= weight
            step >>= 1
        return place


def _powers(gaps: Indices, rate: Fraction, digits: int) -> Indices:
    """Integers above 2**digits exp(-rate gap), by at most 0.3 percent and 1: the same on every machine."""
    steps = 256 * LOG2_E * rate  # of 2**(-1/256), for each count
    most = max(1, int(gaps[-1]))
    # Fixed point, as fine as 62 bits allow; rounded down, so that the powers are rounded up.
    shift = 62 - max(1, math.ceil(steps * most).bit_length()) - 1
    if shift < 0:
        return np.where(gaps > 0, 1, (1 << digits) + 1).astype(np.int64)
    fixed = int(steps * 2**shift)
    whole = np.array([int(gap) * fixed >> shift for gap in gaps]) if fixed * most >= 2**63 else gaps * fixed >> shift
    return (_ROOTS[whole & 255] >> np.minimum((whole >> 8) + (_DIGITS - digits), 62)) + 1


def _words(draw: Draw) -> Iterator[tuple[int, int, int]]:
    """(index, word of the wait, word of the flip) of one proposal after another, many fetched at a time."""
    for start in count(0, _PREFETCH):
        words = draw.words(_LANE, 2 * start, 2 * _PREFETCH).tolist()
        yield from zip(range(start, start + _PREFETCH), words[::2], words[1::2], strict=True)
