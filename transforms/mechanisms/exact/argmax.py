"""The k largest of count + noise over a histogram, without drawing a noise for every item.

Each block of items of nearly equal counts is read from its largest noise downwards, and only as far as it could still
hold one of the k largest (top-down sampling: Maddison, Tarlow & Minka 2014). The numbers are real ones defined by their
bits, each at its own address: floats find who could matter, ball arithmetic orders those that are too close, and the
answer is a property of real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cache, partial
from math import isqrt
from typing import NamedTuple

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw, below
from private_topk.transforms.mechanisms.exact.histogram import Blocks, Histogram, Indices, even_cuts
from private_topk.transforms.mechanisms.exact.noise import (
    COUNT_ERROR,
    LEAST,
    MOST,
    Floats,
    certified_top,
    exponential_real,
    float_rate,
    of_exponential,
)
from private_topk.transforms.mechanisms.exact.reals import Real, ball, precision, relative_float

_LN2 = math.log(2)
_ERROR = 2.0**-28
"""Of a noise for each unit of 1 + A: A is known to one part in 2**31, and no noise moves by more than that of 1 + A.
The rest is for the platform's logarithms, and for the normal quantile's 2**-32. Beyond `_FARTHEST`, either way, doubles
bound nothing: the normal quantile ends there, and further on so do they."""
_FARTHEST = 360.0
_FIRST, _LAST = math.sqrt(2 * _LN2) - 1e-9, 27.0
_KNOTS = (_FIRST, 2.2, 4.5, 11.0, _LAST)
_DEGREE = 24
_PIECES, _TERMS = 32, 6  # of each unit, and of each piece
_TINIEST = 2.0**-1000  # of an exponential; noises do not believe a double that small
_SHUFFLES = 32  # the first lane of the items; those of the exponentials are before it
_OCTAVE = 8  # noises of the octave after the first
_MIN_NOISES = 256  # noises that take hardly longer than one


class Largest(NamedTuple):
    """The ranks of the k largest scores in decreasing order, shape (k,), and these scores: the reals that decided. Most
    draws need none of them, so each is made as it is read, once.
    """

    ranks: Indices
    scores: Iterator[Real]


def noisy_ranks(histogram: Histogram, scale: Fraction, noise: str, k: int, draw: Draw) -> Largest:
    """The k largest count + scale * noise, in decreasing order of that, exactly. Their scores are in units of scale.

    Args:
        scale: the noise's scale in counts (for the Gaussian: its standard deviation).
        noise: a name in NOISES.
        k: 1 <= k <= the number of items.
        draw: its lanes 0 to 63 are used, so it serves one call.

    Cost: a few times k noises and the counts of as many ranks, whatever the counts are.
    """
    levels = Levels(
        rate=float_rate(1 / scale),
        rate_error=0.0,
        level=lambda count: partial(ball, Fraction(count) / scale),
        noise=_FLOATS[noise],
        noise_error=_error,
        quantile=of_exponential(noise),
    )
    least, digits = int(histogram.top(k)[-1]), histogram.items.bit_length()
    if noise == "gaussian":
        # Of d normal numbers hardly one is above sqrt(2 log d), and k items have them down to a few below 0.
        cuts = even_cuts(scale / 4, 4 * (isqrt(2 * digits) + 4), least)
    else:
        cuts = even_cuts(scale / 2, 2 * (digits + 8), least)
    return largest_ranks(histogram, Blocks.of(histogram, k, cuts, rounded=True), levels, k, draw)


def _error(a: Floats) -> Floats:
    return np.where((a > math.exp(-_FARTHEST)) & (a < _FARTHEST), _ERROR * (1 + a), np.inf)


def _laplace(a: Floats) -> Floats:
    return np.where(a < _LN2, -np.log(-2 * np.expm1(-np.minimum(a, _LN2))), _LN2 - a)


def _normal(a: Floats) -> Floats:
    upper = a < _LN2
    tail = np.where(upper, -np.log(-np.expm1(-np.minimum(a, _LN2))), a)
    return np.where(upper, 1.0, -1.0) * normal_quantile(tail)


_FLOATS: dict[str, Callable[[Floats], Floats]] = {
    "gumbel": lambda a: -np.log(a),
    "exponential": lambda a: -np.log(-np.expm1(-a)),
    "laplace": _laplace,
    "logistic": lambda a: -np.log(np.expm1(np.minimum(a, 700))) - np.maximum(a - 700, 0),
    "half-logistic": lambda a: -np.log(np.tanh(a / 2)),
    "gaussian": _normal,
}
"""The noise whose upper tail is 1 - exp(-A), as a function of A."""


def normal_quantile(tail: Floats) -> Floats:
    """The x >= 0 whose normal upper tail is exp(-tail), for tail from log 2 to 360, within 2**-32.

    As a function of sqrt(2 tail) it is nearly a straight line: four polynomials through values found by ball arithmetic
    follow it, and many short ones follow these. The tests compare it with the balls all along.
    """
    u = np.sqrt(2 * np.minimum(tail, _FARTHEST))
    u -= _FIRST
    u *= _PIECES
    pieces = np.maximum(u, 0).astype(np.int64)
    u -= pieces
    first, *others = _coefficients()
    out = first.take(pieces)
    for coefficients in others:
        out *= u
        out += coefficients.take(pieces)
    return out


@cache
def _coefficients() -> Floats:
    """Of the short polynomials, by power, the highest first, shape (_TERMS, pieces)."""
    nodes = 0.5 + 0.5 * np.cos(np.pi * (np.arange(_TERMS) + 0.5) / _TERMS)
    starts = np.arange(int((_LAST - _FIRST) * _PIECES))
    at = _FIRST + (starts[:, None] + nodes) / _PIECES
    return np.asarray(np.linalg.solve(np.vander(nodes), _along(at.ravel()).reshape(at.shape).T), np.float64)


def _along(s: Floats) -> Floats:
    """By the four long polynomials."""
    out = np.empty_like(s)
    for low, high, coefficients in _pieces():
        here = (s >= low) & (s <= high)
        out[here] = np.polynomial.chebyshev.chebval((2 * s[here] - low - high) / (high - low), coefficients)
    return out


@cache
def _pieces() -> list[tuple[float, float, Floats]]:
    nodes = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    pieces = []
    for low, high in zip(_KNOTS, _KNOTS[1:], strict=False):
        with precision(640):  # 1 - exp(-tail) is taken near 1
            at = [arb((low + high) / 2 + (high - low) / 2 * node) for node in nodes.tolist()]
            values = [float((arb(2).sqrt() * (2 * (-s * s / 2).exp()).erfcinv()).mid()) for s in at]
        pieces.append((low, high, np.polynomial.chebyshev.chebfit(nodes, np.array(values), _DEGREE)))
    return pieces


def largest_ranks(histogram: Histogram, blocks: Blocks, levels: Levels, k: int, draw: Draw) -> Largest:
    """The k largest scores, in decreasing order of these, exactly.

    Cost: O(k + number of blocks) noises, and the counts of about k ranks. A draw serves one call, by its lanes 0 to 63.
    """
    descents = _Descents(histogram, blocks, levels, k, draw)
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
        return cls(*(np.concatenate([getattr(part, its.name) for part in parts]) for its in fields(cls)))

    def at(self, which: Indices) -> _Met:
        return _Met(*(getattr(self, its.name)[which] for its in fields(self)))


@dataclass
class _Descents:
    histogram: Histogram
    blocks: Blocks
    levels: Levels
    k: int
    draw: Draw
    met: list[_Met] = field(default_factory=list)
    cut: float = -np.inf
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

    def winners(self) -> Largest:
        """The k largest scores, in decreasing order."""
        met = _Met.joined(self.met)
        met = met.at(np.flatnonzero(met.scores + met.errors >= self.cut))

        def exact(i: int) -> Real:
            return self._score(*(int(column[i]) for column in (met.places, met.turns, met.counts)))

        top = certified_top(met.scores, met.errors, self.k, exact)
        return Largest(met.ranks[top], map(exact, top.tolist()))

    def _descend(self, readings: _Readings, least: int = 1) -> None:
        """Read on while a block could matter, and at least so many noises of each."""
        # Counts 9, 4, 4, 3 and k = 1, in the blocks {9} and {4, 4, 3} with the bound 8: the 9 has one noise, the block
        # three, of which the largest comes from E / 3. If 8 and that one are less than 9 and its noise, the 9 is the
        # answer, whoever of the three it was; if not, a uniform one of the three has it, and the next one is read.
        self._shuffles = Shuffles(self.blocks.sizes, self.draw)
        while len(readings.places):
            high = self._read(readings, self._octaves(readings, least))
            if readings.turns >= least:
                self._raise_cut()
            further = (high >= self.cut) & (readings.turns < self._sizes[readings.places])
            readings = _Readings(readings.places[further], readings.last[further], readings.turns)

    def _octaves(self, readings: _Readings, least: int) -> int:
        """How many octaves to read at once. It only matters for the time: what is read too far is not looked at."""
        first = end = _octave(readings.turns)
        while True:
            end += 1
            start, width = _span(end)
            noises = len(readings.places) * (start + width - readings.turns)
            if start >= max(least, self.k) or (start >= least and noises > _MIN_NOISES):
                return end - first

    def _read(self, readings: _Readings, number: int) -> Floats:
        """Read so many octaves more of each block; returns upper bounds of the scores that may follow."""
        places, first = readings.places, _octave(readings.turns)
        octaves = [(octave, *_span(octave)) for octave in range(first, first + number)]
        parts = [
            self._exponentials(self.draw.grid(octave, places, width), places, start) for octave, start, width in octaves
        ]
        exponentials = parts[0] if number == 1 else np.concatenate(parts, axis=1)
        turns = readings.turns + np.arange(exponentials.shape[1])
        left = self._sizes[places][:, None] - turns
        # With E_0, E_1, ... standard exponentials, the t-th largest of m uniforms is exp(-A_t), where A_t is
        # E_0 / m + ... + E_t / (m - t), t counted from 0. The quantile function of a noise turns it into that order
        # statistic of m noises.
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
            # Which of a block's items has the next noise is uniform among those left.
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
        return exponential_real(self.draw, octave, place * width + turn - first)

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
    return 0 if turn == 0 else 1 + (((turn - 1) * 3 // _OCTAVE + 1).bit_length() - 1) // 2


def _span(octave: int) -> tuple[int, int]:
    """The first turn of an octave and how many it has."""
    before = 4**octave // 4
    return (0, 1) if octave == 0 else (1 + _OCTAVE * (before - 1) // 3, _OCTAVE * before)


class Shuffles:
    """A Fisher-Yates shuffle of each of many blocks of `sizes` items: at turn t item t trades places with one after it.

    Args:
        sizes: shape (n,), at least 1.
        draw: where the bits come from: octave t has those of lane 32 + t.
    """

    def __init__(self, sizes: Indices, draw: Draw) -> None:
        self._sizes, self._draw = sizes, draw
        self._places: list[Indices] = []  # by octave, as the partners are
        self._partners: list[Indices] = []

    def numbers(self, places: Indices, octaves: Sequence[tuple[int, Indices]]) -> Indices:
        """Which items come at the turns of some octaves, numbered within their block, shape (places, turns).

        Args:
            places: blocks, rising, all of them asked for in the octaves before.
            octaves: counted from 0, one after the other, and the turns of each. Beyond a block's end the numbers mean
                nothing.
        """
        for octave, turns in octaves:
            self._places.append(places)
            self._partners.append(self._below(octave, places, turns))
        first = int(octaves[0][1][0])
        traded = self._traded(places)
        if traded.shape[1] == 1:  # nobody has traded before the first
            return traded
        return np.array([_shuffled(row) for row in traded.tolist()])[:, first:]

    def _below(self, octave: int, places: Indices, turns: Indices) -> Indices:
        """turn + an exactly uniform number below size - turn."""
        left = np.maximum(self._sizes[places][:, None] - turns, 1)
        numbers, rejected = below(self._draw.grid(_SHUFFLES + octave, places, len(turns)), left)
        level = 0
        while rejected.any():
            level += 1
            for row, column in zip(*np.nonzero(rejected), strict=True):
                word = self._draw.words(_SHUFFLES + octave, int(places[row]) * len(turns) + int(column), 1, level)
                number, again = below(word, left[row, column : column + 1])
                numbers[row, column], rejected[row, column] = number[0], again[0]
        return numbers + turns

    def _traded(self, places: Indices) -> Indices:
        """The partners of some blocks so far, shape (places, turns)."""
        pairs = zip(self._places, self._partners, strict=True)
        rows = [past if before is places else past[np.searchsorted(before, places)] for before, past in pairs]
        return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)


def _shuffled(partners: list[int]) -> list[int]:
    """Who comes at each turn, by trading."""
    moved: dict[int, int] = {}
    numbers = []
    for turn, partner in enumerate(partners):
        numbers.append(moved.get(partner, partner))
        moved[partner] = moved.pop(turn, turn)
    return numbers
