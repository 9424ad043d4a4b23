"""Gaussian noise that is correlated over the steps of a series, and the exact top k of every step.

Counts to date only grow: what one user adds stays. With noise sum over j <= t of B_tj z_j at step t, z_j independent
standard normals, all noisy counts of the series are post-processing of C n + sigma z, C being the inverse of B. With
b_r = binom(2r, r) / 4**r and c_r = -b_r / (2r - 1), c_0 = 1, the coefficients of (1 - x)**(-1/2) and (1 - x)**(1/2),

    B_tj = sum over s from j to t of g_s c_(s-j),    g_s >= sqrt(V_(T-s+1) / V_T),    V_t = b_0**2 + ... + b_(t-1)**2.

C maps a step from s on, (0, .., 0, 1, .., 1), to (0, .., 0, b_0, .., b_(T-s)) / g_s, whose squared length is at most
V_T: so much does one user move C n, squared, for each of their items. (The normalised square root of Henzinger, Kalinin
& Upadhyay 2025.) All entries of B are positive, and those of C are not negative.

The noise of an item at a step is a real number that is defined by the words at the *item's own* address in the
keystreams of the steps so far, whatever its rank. Floats enclose all scores, balls decide where these overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import comb, floor, fsum, isqrt, ldexp

import numpy as np

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.count_noise import as_int64, rounded
from private_topk.transforms.mechanisms.exact.histogram import Indices
from private_topk.transforms.mechanisms.exact.noise import (
    COUNT_ERROR,
    NOISE_ERROR,
    Floats,
    certified_top,
    float_rate,
    noise_at,
    noise_real,
)
from private_topk.transforms.mechanisms.exact.reals import Real, ball

MAX_STEPS = 1024
"""The most steps of a series: their matrix has integers of twice as many bits."""

_NOISE = "gaussian"
_GRAIN = 32  # g_s is a multiple of 2**-32
_BITS = 96  # of an entry of B that its float is made of
_CHUNK = 1 << 13  # items that are drawn at a time, with all steps
_ROUNDINGS = 2.0**-48  # more than what some roundings of floats amount to, relatively
_ROUNDING = 1 + 2.0**-7
"""A sum of t normals, each within `NOISE_ERROR` and of at most 13 standard deviations, times floats of B: whatever the
order of adding up, rounding adds less than t 2**-49 for a unit of their weight, with t <= 1024 below 2**-7 of the
rest."""


@lru_cache(maxsize=8)
def squared_reach(steps: int) -> Fraction:
    """V_T: how far one item of a user moves C n, squared, in a series of so many steps. Its root grows as log(T)."""
    return Fraction(_reaches(steps)[-1], 16 ** (steps - 1))


def _reaches(steps: int) -> list[int]:
    """V_1 .. V_T in units of 16**(1 - T)."""
    return list(accumulate(comb(2 * r, r) ** 2 << 4 * (steps - 1 - r) for r in range(steps)))


@lru_cache(maxsize=8)
def _weights(steps: int) -> list[int]:
    """g_1 .. g_T, rounded up, in units of 2**-32."""
    reaches = _reaches(steps)
    return [isqrt(((reach << 2 * _GRAIN) - 1) // reaches[-1]) + 1 for reach in reversed(reaches)]


@lru_cache(maxsize=8)
def _roots(steps: int) -> list[int]:
    """c_0 .. c_(T-1) in units of 4**-T."""
    first = [4**steps, *(-comb(2 * r, r) // (2 * r - 1) * 4 ** (steps - r) for r in range(1, steps))]
    return first[:steps]


def exact_row(steps: int, step: int) -> list[Fraction]:
    """The weights of the normals so far in the noise of a step: B_tj for j = 1 .. t, exactly."""
    weights, roots, unit = _weights(steps), _roots(steps), 1 << 2 * steps + _GRAIN
    sums = (sum(weights[s] * roots[s - j] for s in range(j, step)) for j in range(step))
    return [Fraction(total, unit) for total in sums]


@lru_cache(maxsize=4)
def matrix(steps: int) -> Floats:
    """B in floats, each within 2**-52 of it, relatively; shape (T, T). Cost: 0.1 s at T = 365, once."""
    found = np.zeros((steps, steps))
    for number, row in enumerate(_rows(steps)):
        found[number, : number + 1] = row
    return found


def squared_weight(steps: int, step: int) -> Fraction:
    """Hardly more than B_t1**2 + ... + B_tt**2, which times sigma**2 is the variance of the noise of a step."""
    return Fraction(fsum(weight * weight for weight in matrix(steps)[step - 1, :step].tolist())) * (
        1 + Fraction(1, 2**40)
    )


def _rows(steps: int) -> Iterator[list[float]]:
    weights, roots, spare = _weights(steps), _roots(steps), 2 * steps + _GRAIN - _BITS
    row: list[int] = []
    for t, weight in enumerate(weights):
        row = [before + weight * root for before, root in zip([*row, 0], reversed(roots[: t + 1]), strict=True)]
        yield [ldexp(entry >> spare if spare > 0 else entry, -min(_BITS, _BITS + spare)) for entry in row]


@dataclass(frozen=True, eq=False)
class NewCounts:
    """What is new at the steps of a series: cells of a step and an item, in order of the steps.

    Args:
        steps: (n,) numbers from 0.
        items, counts: (n,) int64; the counts are 1 or more, and no cell comes twice.
    """

    steps: Indices
    items: Indices
    counts: Indices

    @classmethod
    def of(cls, parts: Sequence[tuple[Indices, Indices]]) -> NewCounts:
        """Of the items and counts of every step, one after the other."""
        nothing = np.empty(0, np.int64)
        items, counts = (np.concatenate([nothing, *(part[column] for part in parts)]) for column in (0, 1))
        return cls(np.repeat(np.arange(len(parts)), [len(each) for each, _ in parts]), items, counts)

    def in_chunks(self, listed: range | Indices) -> Iterator[tuple[Indices, Indices]]:
        """The listed items, some at a time, with their counts new at every step: shapes (c,) and (steps of all, c)."""
        places = self.items if isinstance(listed, range) else np.searchsorted(listed, self.items)
        order = np.argsort((places // _CHUNK).astype(np.int32), kind="stable")
        cuts = np.searchsorted(places[order] // _CHUNK, np.arange(-(-len(listed) // _CHUNK) + 1))
        for number, (first, last) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
            some, cells = listed[number * _CHUNK : (number + 1) * _CHUNK], order[first:last]
            new = np.zeros((int(self.steps[-1]) + 1 if len(self.steps) else 0, len(some)), np.int64)
            new[self.steps[cells], places[cells] - number * _CHUNK] = self.counts[cells]
            yield np.asarray(some, np.int64), new


@dataclass(frozen=True, eq=False)
class TopOfStep:
    """The k items of largest noisy count to date at a step, in decreasing order of that; shape (k,)."""

    items: Indices
    _counted: Callable[[int], int]

    def counts(self) -> Indices:
        """The noisy counts by which they are ordered, rounded exactly; shape (k,)."""
        return as_int64([self._counted(place) for place in range(len(self.items))])


def top_of_steps(
    new: NewCounts, listed: range | Indices, scale: Fraction, steps: int, k: int, draws: Sequence[Draw]
) -> list[TopOfStep]:
    """The k items of largest noisy count to date at every step, in decreasing order of that, exactly.

    Args:
        listed: the items that can be ranked, rising.
        scale: sigma, in counts.
        steps: T, of the whole series.
        k: 1 <= k <= the number of items.
        draws: the keystream of each step so far: item i has the normal `noise_real(draw, 0, i, "gaussian")`.

    Returns:
        One for each of the draws. Cost: about 80 ns for an item and step; memory: of 8,192
        items with all steps, four times.
    """
    weights, rate = matrix(steps)[: len(draws), : len(draws)], float_rate(1 / scale)
    base = NOISE_ERROR * _ROUNDING * weights.sum(axis=1)
    best = [_Best(k) for _ in draws]
    references = _references(new, len(draws))
    for items, added in new.in_chunks(listed):
        normals = np.stack([noise_at(items, _NOISE, draw) for draw in draws])
        counts = np.zeros(normals.shape, np.int64)
        counts[: len(added)] = added[: len(draws)]
        np.cumsum(counts, axis=0, out=counts)
        counts -= references[:, None]
        moved = counts * rate
        scores = weights @ normals
        scores += moved
        errors = np.abs(moved, out=moved)
        errors *= COUNT_ERROR
        errors += base[:, None]
        within = scores + errors >= np.array([each.cut for each in best])[:, None]
        for step, each in enumerate(best):
            some = np.flatnonzero(within[step])
            if len(some):
                each.add(items[some], scores[step, some], errors[step, some])

    unit = float_rate(scale)

    def chosen(step: int) -> TopOfStep:
        its, reference = best[step], int(references[step])

        def exact(place: int) -> Real:
            item = int(its.items[place])
            counted = new.counts[(new.items == item) & (new.steps <= step)].sum()
            return noisy_score_of(item, int(counted), scale, steps, draws[: step + 1])

        def counted(place: int) -> int:
            score, error = float(its.scores[place]), float(its.errors[place])
            middle, slack = unit * score, unit * (error + abs(score) * _ROUNDINGS) + _ROUNDINGS
            if slack < 1 and floor(middle - slack + 0.5) == floor(middle + slack + 0.5):
                return reference + floor(middle + 0.5)
            value = exact(place)
            return rounded(lambda: ball(scale) * value())

        places = certified_top(its.scores, its.errors, k, exact)
        return TopOfStep(its.items[places], lambda place: counted(int(places[place])))

    return [chosen(step) for step in range(len(draws))]


def noisy_score_of(item: int, count: int, scale: Fraction, steps: int, draws: Sequence[Draw]) -> Real:
    """The noisy count of an item at the step of the last draw, in units of `scale`."""
    row = exact_row(steps, len(draws))
    normals = [noise_real(draw, 0, item, _NOISE) for draw in draws]
    return lambda: sum(
        (ball(weight) * normal() for weight, normal in zip(row, normals, strict=True)), ball(count / scale)
    )


def _references(new: NewCounts, steps: int) -> Indices:
    """The largest count at every step, shape (steps,): scores are told from it, so that large ones keep precision."""
    sums = np.zeros(int(new.items.max(initial=-1)) + 1, np.int64)
    found, edges = np.zeros(steps, np.int64), np.searchsorted(new.steps, np.arange(steps + 1))
    largest = 0
    for step in range(steps):
        cells = slice(edges[step], edges[step + 1])
        sums[new.items[cells]] += new.counts[cells]
        largest = found[step] = max(largest, int(sums[new.items[cells]].max(initial=0)))
    return found


class _Best:
    """The items of a step that can still be among its k of largest score."""

    def __init__(self, k: int) -> None:
        self._k = k
        self.cut = -np.inf  # at least k scores are certainly as large
        self.items, self.scores, self.errors = np.empty(0, np.int64), np.empty(0), np.empty(0)

    def add(self, items: Indices, scores: Floats, errors: Floats) -> None:
        kept = [
            np.concatenate(pair)
            for pair in zip((self.items, self.scores, self.errors), (items, scores, errors), strict=True)
        ]
        if len(kept[0]) >= self._k:
            low = kept[1] - kept[2]
            self.cut = float(np.partition(low, len(low) - self._k)[len(low) - self._k])
            still = kept[1] + kept[2] >= self.cut
            kept = [column[still] for column in kept]
        self.items, self.scores, self.errors = kept
