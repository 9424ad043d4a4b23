"""The k largest of count + noise over a histogram, without drawing a noise for every item.

Of m items only the largest noises matter. With E_0, E_1, ... standard exponentials, the t-th largest of m uniforms is
exp(-A_t) with A_t = E_0 / m + ... + E_t / (m - t), t counted from 0, and the quantile function of a noise turns it into
that order statistic; which of the m items has it is uniform among those left. So each block of items is read from its
largest noise downwards, and only as far as its bound and that noise could still make one of the k largest (top-down
sampling: Maddison, Tarlow & Minka 2014). The numbers are real ones defined by their bits, each at its own address:
floats find who could matter, ball arithmetic orders those that are too close, and the answer is a property of real
numbers.

Example: counts 9, 4, 4, 3 and k = 1, in the blocks {9} and {4, 4, 3} with the bound 8. The 9 has one noise; the block
has three, of which the largest comes from E / 3. If 8 and that one are less than 9 and its noise, the 9 is the answer
whoever of the three it was; if not, a uniform one of the three has it, and the next, A + E' / 2, is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.blocks import Blocks
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import COUNT_ERROR, LEAST, MOST, certified_top, exponential_real
from private_topk.transforms.mechanisms.exact.reals import Real, relative_float
from private_topk.transforms.mechanisms.exact.shuffles import Shuffles

__all__ = ["Levels", "largest_ranks"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_TINIEST = 2.0**-1000  # of an exponential; noises do not believe a double that small
_LANES = 64  # of the keystream, for each lane of a caller
_SHUFFLES = 32  # the first of them for the items; before it those of the exponentials
_FIRST = 8  # noises of the octave after the first
_FEW = 256  # noises that take hardly longer than one
_SOME = 1536  # noises that take no longer than another round
_MANY = 400  # items asked for, from which on it pays to foresee how far to read


def largest_ranks(histogram: Histogram, blocks: Blocks, levels: Levels, k: int, draw: Draw, lane: int = 0) -> Indices:
    """The ranks of the k largest scores, in decreasing order of these, exactly; shape (k,).

    Cost: O(k + number of blocks) noises, and the counts of about k ranks. Use a lane of its own for every call on one
    draw.
    """
    descents = _Descents(histogram, blocks, levels, k, draw, lane * _LANES)
    descents.read()
    return descents.winners()


@dataclass
class _Readings:
    """The last reading of some blocks, all read equally far: the last A of each, shape (n,)."""

    places: Indices
    last: Floats
    turns: int = 0


@dataclass(frozen=True)
class Levels:
    """The score of an item is level(count) + noise(A), A the exponential of its order statistic.

    Args:
        rate, rate_error: what one count adds to a level, and a bound on its relative error.
        level: the exact level of a count.
        noise, noise_error: the noise in floats as a function of A, and a bound on its error when A is off by one part
            in 2**31.
        quantile: the exact noise of an exact A; it falls.
    """

    rate: float
    rate_error: float
    level: Callable[[int], Real]
    noise: Callable[[Floats], Floats]
    noise_error: Callable[[Floats], Floats]
    quantile: Callable[[arb], arb]

    def steps(self, counts: Indices, least: int) -> tuple[Floats, Floats]:
        """The levels of counts less that of `least`, and bounds on their errors.

        Differences from it are exact integers, so counts near it keep their precision however large they are.
        """
        steps: Floats = np.asarray((counts - least) * self.rate, np.float64)
        return steps, np.abs(steps) * (COUNT_ERROR + self.rate_error)


@dataclass(frozen=True, eq=False)
class _Met:
    """Which item of which block has which score, less the level of a common count, shape (n,) each.

    Args:
        errors: bounds on those of the scores.
    """

    places: Indices
    turns: Indices
    ranks: Indices
    counts: Indices
    scores: Floats
    errors: Floats

    @classmethod
    def joined(cls, parts: Sequence[_Met]) -> _Met:
        """All of the parts."""
        return cls(*(np.concatenate([getattr(part, its.name) for part in parts]) for its in fields(cls)))

    def at(self, which: Indices) -> _Met:
        """Some of them."""
        return _Met(*(getattr(self, its.name)[which] for its in fields(self)))


@dataclass
class _Descents:
    histogram: Histogram
    blocks: Blocks
    levels: Levels
    k: int
    draw: Draw
    lane: int
    met: list[_Met] = field(default_factory=list)
    cut: float = -np.inf
    _guess: float = np.inf  # where the cut will be, about
    _sums: dict[tuple[int, int], list[arb]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._sizes = self.blocks.sizes.astype(np.float64)
        self._starts = self.blocks.starts

    def read(self) -> None:
        """Read the blocks as far as they may matter.

        k scores say how large one has to be. The first noise of each block makes so many, or else the items of the k
        largest counts: one noise each, and of those with the k-th as many as that takes.
        """
        last, end = self.blocks.exact - 1, len(self.blocks.sizes)
        if self.k <= end:
            self._descend(_Readings(np.arange(end), np.zeros(end)))
            return
        if last:
            self._read(_Readings(np.arange(last), np.zeros(last)), 1)
        self._descend(_Readings(np.array([last]), np.zeros(1)), self.k - last)
        self._descend(_Readings(np.arange(last + 1, end), np.zeros(end - last - 1)))

    def winners(self) -> Indices:
        """The ranks of the k largest scores, in decreasing order."""
        met = _Met.joined(self.met)
        met = met.at(np.flatnonzero(met.scores + met.errors >= self.cut))

        def exact(i: int) -> Real:
            return self._score(*(int(column[i]) for column in (met.places, met.turns, met.counts)))

        return met.ranks[certified_top(met.scores, met.errors, self.k, exact)]

    def _descend(self, readings: _Readings, least: int = 1) -> None:
        """Read on while a block could matter, and at least so many noises of each."""
        self._shuffles = Shuffles(self.blocks.sizes, self.draw, self.lane + _SHUFFLES)
        while len(readings.places):
            high = self._read(readings, self._ahead(readings, least))
            if readings.turns >= least:
                self._raise_cut()
                if self.k >= _MANY and self._guess == np.inf and int(readings.places[-1]) == len(self._sizes) - 1:
                    self._guess = self._foreseen(readings)
            further = (high >= self.cut) & (readings.turns < self._sizes[readings.places])
            readings = _Readings(readings.places[further], readings.last[further], readings.turns)

    def _ahead(self, readings: _Readings, least: int) -> int:
        """How many octaves to read at once. It only matters for the time: what is read too far is not looked at."""
        octave, number = _octave(readings.turns), 1
        if least > 1:
            return max(1, _octave(least - 1) + 1 - octave)
        while self._guess < np.inf:
            start, width = _span(octave + number)
            few = len(readings.places) * (start + width - readings.turns) <= _FEW
            wanted = self._expected(readings.places, start + 2 * math.isqrt(start)) >= self._guess
            if start > self.k or 2 * np.count_nonzero(wanted) < len(wanted) * (1 if few else 2):
                break
            number += 1
        return number if self._guess < np.inf else self._ahead_of_few(readings)

    def _ahead_of_few(self, readings: _Readings) -> int:
        """How many octaves to read at once before it is known where the cut will be."""
        octave, number = _octave(readings.turns), 1
        while -np.inf < self.cut:
            start, width = _span(octave + number)
            many = len(readings.places) * (start + width - readings.turns) > _SOME or start > 4 * self.k
            if many or not (self._expected(readings.places, start) >= self.cut).any():
                break
            number += 1
        return number

    def _expected(self, places: Indices, turns: int) -> Floats:
        """About which score the noise of a turn makes with the bound of each block; least where there is none."""
        sizes = self._sizes[places]
        a = -np.log1p(-np.minimum((turns + 1) / (sizes + 2), 1 - 2.0**-30))
        return np.where(
            turns < sizes,
            self.levels.steps(self.blocks.bounds[places], self.blocks.least)[0] + self.levels.noise(a),
            -np.inf,
        )

    def _foreseen(self, readings: _Readings) -> float:
        """About where the k-th largest score will be, once these blocks are read."""
        octaves = range(_octave(readings.turns), _octave(self.k) + 1)
        places = readings.places[self._sizes[readings.places] > readings.turns]
        scores = [self._expected(places, sum(_span(octave)) - 1) for octave in octaves]
        widths = [np.full(len(places), _span(octave)[1]) for octave in octaves]
        met = np.concatenate([group.scores for group in self.met])
        every, each = np.concatenate((met, *scores)), np.concatenate((np.ones(len(met), np.int64), *widths))
        order = np.argsort(-every)
        return float(every[order[np.searchsorted(np.cumsum(each[order]), self.k)]])

    def _read(self, readings: _Readings, number: int) -> Floats:
        """Read so many octaves more of each block; returns upper bounds of the scores that may follow."""
        places, first = readings.places, _octave(readings.turns)
        octaves = [(octave, *_span(octave)) for octave in range(first, first + number)]
        parts = [
            self._exponentials(self.draw.grid(self.lane + octave, places, width), places, start)
            for octave, start, width in octaves
        ]
        exponentials = parts[0] if number == 1 else np.concatenate(parts, axis=1)
        turns = readings.turns + np.arange(exponentials.shape[1])
        left = self._sizes[places][:, None] - turns
        with np.errstate(divide="ignore"):
            steps = np.where(left > 0, exponentials / np.maximum(left, 1), np.inf)
        a = readings.last[:, None] + np.cumsum(steps, axis=1)
        high = self._meet(places, turns, a)
        readings.last, readings.turns = a[:, -1], readings.turns + len(turns)
        return high

    def _meet(self, places: Indices, turns: Indices, a: Floats) -> Floats:
        """Note who may matter; returns upper bounds of the scores after the last, as noises fall."""
        there = np.isfinite(a)
        a = np.where(there, a, 1.0)
        noise, errors = self.levels.noise(a), self.levels.noise_error(a)
        steps, step_errors = self.levels.steps(self.blocks.bounds[places], self.blocks.least)
        high = np.where(there, steps[:, None] + step_errors[:, None] + noise + errors, -np.inf)
        hopeful = there & (high >= self.cut)
        if hopeful.any():
            self._note(places, turns, noise, errors, hopeful)
        return high[:, -1]

    def _note(self, places: Indices, turns: Indices, noise: Floats, errors: Floats, hopeful: NDArray[np.bool_]) -> None:
        """Name who has the hopeful noises."""
        blocks = np.flatnonzero(hopeful.any(axis=1))
        rows, columns = np.nonzero(hopeful[blocks])
        ranks = self._starts[places[blocks]][rows]
        if int(places[-1]) >= self.blocks.exact - 1:  # all before have one item each
            octaves = range(_octave(int(turns[0])), _octave(int(turns[-1])) + 1)
            spans = [(octave, start + np.arange(width)) for octave in octaves for start, width in [_span(octave)]]
            ranks = ranks + self._shuffles.numbers(places[blocks], spans)[rows, columns]
        rows = blocks[rows]
        counts = self.blocks.bounds[places[rows]]
        below = places[rows] >= self.blocks.exact
        counts[below] = self.histogram.counts_at(ranks[below])
        steps, step_errors = self.levels.steps(counts, self.blocks.least)
        scores, score_errors = steps + noise[rows, columns], step_errors + errors[rows, columns]
        self.met.append(_Met(places[rows], turns[columns], ranks, counts, scores, score_errors))

    def _exponentials(self, words: NDArray[np.uint64], places: Indices, turn: int) -> Floats:
        """Standard exponentials of words, shape (places, n), within one part in 2**32, or `_TINIEST` of those below."""
        v = words * 2.0**-64
        out = -np.log1p(-np.clip(v, LEAST, MOST))
        for row, column in zip(*np.nonzero((v < LEAST) | (v > MOST)), strict=True):  # about one word in a million
            value = relative_float(self._exponential(int(places[row]), turn + int(column)))
            out[row, column] = max(value, _TINIEST)
        return out

    def _exponential(self, place: int, turn: int) -> Real:
        octave = _octave(turn)
        first, width = _span(octave)
        return exponential_real(self.draw, self.lane + octave, place * width + turn - first)

    def _raise_cut(self) -> None:
        """The k-th largest score met is at least the cut; fewer than k have none."""
        low = np.concatenate([met.scores - met.errors for met in self.met])
        if len(low) >= self.k:
            self.cut = float(np.partition(low, len(low) - self.k)[len(low) - self.k])

    def _score(self, place: int, turn: int, count: int) -> Real:
        level = self.levels.level(count)
        return lambda: level() + self.levels.quantile(self._sum(place, turn))

    def _sum(self, place: int, turn: int) -> arb:
        """The A of a turn, exactly. Sums are kept: each of many scores of one block adds to those before it."""
        size, sums = int(self.blocks.sizes[place]), self._sums.setdefault((ctx.prec, place), [])
        for t in range(len(sums), turn + 1):
            sums.append((sums[-1] if t else arb(0)) + self._exponential(place, t)() / (size - t))
        return sums[turn]


def _octave(turn: int) -> int:
    """Turn 0 is read by itself, then the next 8, the next 32, and so on."""
    return 0 if turn == 0 else 1 + (((turn - 1) * 3 // _FIRST + 1).bit_length() - 1) // 2


def _span(octave: int) -> tuple[int, int]:
    """The first turn of an octave and how many it has."""
    before = 4**octave // 4
    return (0, 1) if octave == 0 else (1 + _FIRST * (before - 1) // 3, _FIRST * before)
