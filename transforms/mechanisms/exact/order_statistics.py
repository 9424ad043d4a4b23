"""The k largest of count + noise over a histogram, without drawing a noise for every item.

Of m items with the same count only the largest noises matter. With E_0, E_1, ... standard exponentials, the t-th
largest of m uniforms is exp(-A_t) with A_t = E_0 / m + ... + E_t / (m - t), t counted from 0, and the quantile function
of a noise turns it into that order statistic; which item of the value has it is uniform among those left. So each value
is read from its largest noise downwards, and only as far as it could still be among the k largest (top-down sampling:
Maddison, Tarlow & Minka 2014). The numbers are real ones defined by their bits, each exponential at an address of its
own: floats find who could matter, ball arithmetic orders those that are too close, and the answer is a property of the
real numbers.

Example: counts 9, 4, 4, 4 and k = 2. The value 9 has one noise; 4 has three, of which the largest comes from E / 3. If
that one is second to 9, the next is read, A + E' / 2, to see that it is smaller still; the third one never matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import LEAST, MOST, certified_top, exponential_real
from private_topk.transforms.mechanisms.exact.reals import Real, relative_float

__all__ = ["Levels", "largest_ranks"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_LANES = 64  # of the keystream, for each lane of a caller
_AT_ONCE = 1 << 16  # values looked at together


@dataclass(frozen=True)
class Levels:
    """What is added to what: the score of an item is level(value) + noise(A).

    Args:
        steps, errors: a float for each value that its level, less one constant, lies within errors of; shape (D,).
        level: the exact level of a place.
        noise, noise_error: the noise in floats as a function of A, and a bound on its error when A is off by one part
            in 2**31.
        quantile: the exact noise of an exact A; it falls.
        most: an upper bound on the noises of m items whose first word is at least `LEAST`.
    """

    steps: Floats
    errors: Floats
    level: Callable[[int], Real]
    noise: Callable[[Floats], Floats]
    noise_error: Callable[[Floats], Floats | float]
    quantile: Callable[[arb], arb]
    most: Callable[[Floats], Floats]


def largest_ranks(histogram: Histogram, levels: Levels, k: int, draw: Draw, lane: int = 0) -> Indices:
    """The ranks of the k largest scores, in decreasing order of these, exactly; shape (k,).

    Cost: O(k) noises beside one random word for every value. Use a lane of its own for every call on one draw.
    """
    descents = _Descents(histogram, levels, k, draw, lane * _LANES)
    # The values that hold the k largest counts say how large a score has to be; few others can reach it.
    first = int(np.searchsorted(histogram.ends, k)) + 1
    descents.open(np.arange(min(first, len(histogram.values))))
    for start in range(first, len(histogram.values), _AT_ONCE):
        descents.open(descents.hopeful(np.arange(start, min(start + _AT_ONCE, len(histogram.values)))))
    places = descents.winners()
    return _named(histogram, places, draw)


def _named(histogram: Histogram, places: Indices, draw: Draw) -> Indices:
    """A rank for each place drawn: a uniform one among those of its value that are left."""
    starts = (histogram.ends - histogram.sizes)[places].tolist()
    moved: dict[tuple[int, int], int] = {}
    met: dict[int, int] = {}
    ranks = []
    for place, start, size in zip(places.tolist(), starts, histogram.sizes[places].tolist(), strict=True):
        if size == 1:
            ranks.append(start)
            continue
        # A Fisher-Yates shuffle of the value's items, as far as it is drawn.
        left = size - met.get(place, 0)
        number = draw.below(left)
        ranks.append(start + moved.get((place, number), number))
        moved[place, number] = moved.get((place, left - 1), left - 1)
        met[place] = size - left + 1
    return np.array(ranks, np.int64)


@dataclass
class _Opened:
    """Values read as far as each other, with the last A of each, shape (n,)."""

    places: Indices
    last: Floats
    turns: int = 1


@dataclass
class _Descents:
    histogram: Histogram
    levels: Levels
    k: int
    draw: Draw
    lane: int
    places: list[Indices] = field(default_factory=list)  # of the scores met, with their turns, in parallel lists
    turns: list[Indices] = field(default_factory=list)
    scores: list[Floats] = field(default_factory=list)
    errors: list[Floats] = field(default_factory=list)
    cut: float = -np.inf

    def hopeful(self, places: Indices) -> Indices:
        """Those of the places whose largest score could be above the cut."""
        reach = self.levels.steps[places] + self.levels.errors[places] + self.levels.most(self._sizes[places])
        lucky = self.draw.words(self.lane, int(places[0]), len(places)) < int(2.0**64 * LEAST)
        return places[(reach >= self.cut) | lucky]

    def open(self, places: Indices) -> None:
        """Read the values at these places as far as they matter."""
        if not len(places):
            return
        words = self.draw.words(self.lane, int(places[0]), int(places[-1] - places[0]) + 1)[places - places[0]]
        exponentials = self._exponentials(words[:, None], places, 0)
        opened = _Opened(places, exponentials[:, 0] / self._sizes[places])
        high = self._meet(opened.places, np.zeros_like(places)[:, None], opened.last[:, None])[:, 0]
        octave = 0
        while True:
            self._raise_cut()
            further = (high >= self.cut) & (opened.turns < np.minimum(self._sizes[opened.places], self.k))
            if not further.any():
                return
            opened = _Opened(opened.places[further], opened.last[further], opened.turns)
            high = self._descend(opened, octave)
            octave += 1

    def winners(self) -> Indices:
        """The places of the k largest scores, in decreasing order."""
        places, turns = np.concatenate(self.places), np.concatenate(self.turns)
        scores, errors = np.concatenate(self.scores), np.concatenate(self.errors)
        near = np.flatnonzero(scores + errors >= self.cut)

        def exact(i: int) -> Real:
            return self._score(int(places[near[i]]), int(turns[near[i]]))

        return places[near[certified_top(scores[near], errors[near], self.k, exact)]]

    @cached_property
    def _sizes(self) -> Floats:
        return self.histogram.sizes.astype(np.float64)

    def _descend(self, opened: _Opened, octave: int) -> Floats:
        """Read as many noises again as have been read, of each value; returns upper bounds of the last scores."""
        width = 1 << octave
        words = self._words(opened.places, octave)
        turns = width + np.arange(width)
        left = self._sizes[opened.places][:, None] - turns
        exponentials = self._exponentials(words, opened.places, width)
        with np.errstate(divide="ignore"):
            a = opened.last[:, None] + np.cumsum(np.where(left > 0, exponentials / np.maximum(left, 1), np.inf), axis=1)
        high = self._meet(opened.places, np.broadcast_to(turns, a.shape), a)
        opened.last, opened.turns = a[:, -1], 2 * width
        return high[:, -1]

    def _words(self, places: Indices, octave: int) -> NDArray[np.uint64]:
        """The words of turns 2**octave .. 2**(octave + 1) - 1, shape (places, 2**octave)."""
        width, lane, first = 1 << octave, self.lane + 1 + octave, int(places[0])
        span = int(places[-1]) - first + 1
        if span <= 64 * len(places) // width + 1:
            return self.draw.words(lane, first * width, span * width).reshape(span, width)[places - first]
        return np.stack([self.draw.words(lane, place * width, width) for place in places.tolist()])

    def _exponentials(self, words: NDArray[np.uint64], places: Indices, turn: int) -> Floats:
        """Standard exponentials of words, shape (places, n), within one part in 2**32."""
        v = words * 2.0**-64
        out = -np.log1p(-np.clip(v, LEAST, MOST))
        for row, column in zip(*np.nonzero((v < LEAST) | (v > MOST)), strict=True):  # about one word in a million
            out[row, column] = relative_float(self._exponential(int(places[row]), turn + int(column)))
        return out

    def _exponential(self, place: int, turn: int) -> Real:
        octave = turn.bit_length() - 1
        if turn == 0:
            return exponential_real(self.draw, self.lane, place)
        return exponential_real(self.draw, self.lane + 1 + octave, (place << octave) + turn - (1 << octave))

    def _meet(self, places: Indices, turns: Indices, a: Floats) -> Floats:
        """Note the scores, shape (places, turns); returns upper bounds of them."""
        there = np.isfinite(a)
        noise = np.full(a.shape, -np.inf)
        noise[there] = self.levels.noise(a[there])
        scores = self.levels.steps[places][:, None] + noise
        errors = np.broadcast_to(self.levels.errors[places][:, None], a.shape) + np.where(
            there, self.levels.noise_error(np.where(there, a, 0.0)), 0.0
        )
        kept = there & (scores + errors >= self.cut)
        self.places.append(np.broadcast_to(places[:, None], a.shape)[kept])
        self.turns.append(np.broadcast_to(turns, a.shape)[kept])
        self.scores.append(scores[kept])
        self.errors.append(errors[kept])
        return scores + errors

    def _raise_cut(self) -> None:
        """The k-th largest score met is at least the cut; fewer than k have none."""
        low = np.concatenate(self.scores) - np.concatenate(self.errors)
        if len(low) >= self.k:
            self.cut = float(np.partition(low, len(low) - self.k)[len(low) - self.k])

    def _score(self, place: int, turn: int) -> Real:
        size, level = int(self.histogram.sizes[place]), self.levels.level(place)
        terms = [(self._exponential(place, t), size - t) for t in range(turn + 1)]

        def value() -> arb:
            return level() + self.levels.quantile(sum((e() / left for e, left in terms), arb(0)))

        return value
