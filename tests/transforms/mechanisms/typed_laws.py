"""Laws for ten items and more: by *kinds* of items that no mechanism can tell apart, on neither of two data sets.

A kind has a count here, a count on the neighbour, and a number of items. All answers with the same sequence of kinds
have the same probability, on either side, so a law is one probability and one multiplicity for each such sequence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.transforms.mechanisms.laws import _antiderivative
from tests.transforms.mechanisms.noise_laws import NOISE_LAWS

Floats = NDArray[np.float64]


class Kind(NamedTuple):
    here: int
    there: int
    size: int


@dataclass(frozen=True)
class Pair:
    """The logarithms of the probabilities of single answers, here and there, and how many answers have them."""

    here: Floats
    there: Floats
    numbers: Floats

    @property
    def ratios(self) -> Floats:
        return self.here - self.there

    def total(self, law: Floats) -> float:
        return float(self.numbers @ np.exp(law))

    def renyi(self, order: float) -> float:
        """The larger of the two divergences of this order."""
        return max(self._one_way(self.here, self.ratios, order), self._one_way(self.there, -self.ratios, order))

    def _one_way(self, law: Floats, ratios: Floats, order: float) -> float:
        chances = self.numbers * np.exp(law)
        if order == 1:
            return float(chances @ ratios)
        top = ratios.max() * (order - 1)
        return float((math.log(chances @ np.exp((order - 1) * ratios - top)) + top) / (order - 1))


def of_rounds(kinds: tuple[Kind, ...], k: int, one_round: Callable[[Floats, Floats], Floats]) -> Pair:
    """k rounds over the items left; `one_round` takes counts and sizes to the log-probability of one item of a kind."""
    counts = [np.array([kind[side] for kind in kinds], float) for side in (0, 1)]
    known = cache(lambda side, left: one_round(counts[side], np.array(left, float)))

    def walk(left: tuple[int, ...], depth: int) -> Iterator[tuple[float, float, float]]:
        if not depth:
            yield 0.0, 0.0, 1.0
            return
        for t, size in enumerate(left):
            if size:
                rest = (*left[:t], size - 1, *left[t + 1 :])
                for here, there, number in below(rest, depth - 1):
                    yield known(0, left)[t] + here, known(1, left)[t] + there, size * number

    below = cache(lambda left, depth: list(walk(left, depth)))
    return Pair(*np.array(below(tuple(kind.size for kind in kinds), k)).T)


def exponential_round(share: float) -> Callable[[Floats, Floats], Floats]:
    return lambda counts, left: share * counts - math.log(left @ np.exp(share * counts))


def flip_round(share: float) -> Callable[[Floats, Floats], Floats]:
    """Permute-and-flip: an item's coin p times the integral over [0, 1] of the product of the others' 1 - p x."""
    x, w = np.polynomial.legendre.leggauss(20)
    x, w = (x + 1) / 2, w / 2

    def logs(counts: Floats, left: Floats) -> Floats:
        p = np.exp(share * (counts - counts[left > 0].max()))
        misses = 1 - p[:, None] * x
        whole = (misses ** left[:, None]).prod(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(p) + np.log((w * whole / misses).sum(axis=1))

    return logs


def of_losses(kinds: tuple[Kind, ...], k: int, rate: float, loss: Callable[[Floats, Floats], Floats]) -> Pair:
    """An exponential mechanism over sequences; `loss` takes sorted counts and those of sequences, (n, k) to (n,)."""
    sequences = np.array(list(itertools.product(range(len(kinds)), repeat=k)))
    numbers = np.ones(len(sequences))
    for t, kind in enumerate(kinds):
        taken = np.cumsum(sequences == t, axis=1) - 1
        numbers *= np.where(sequences == t, np.maximum(kind.size - taken, 0), 1).prod(axis=1)
    sequences, numbers = sequences[numbers > 0], numbers[numbers > 0]
    laws = []
    for side in (0, 1):
        counts = np.array([kind[side] for kind in kinds], float)
        ranked = -np.sort(-np.repeat(counts, [kind.size for kind in kinds]))
        weights = -rate * loss(ranked, counts[sequences])
        laws.append(weights - math.log(numbers @ np.exp(weights - weights.max())) - weights.max())
    return Pair(*laws, numbers)


def of_noise(kinds: tuple[Kind, ...], k: int, noise: str, scale: float) -> Pair:
    """The k largest of count + scale * noise, in order, by nested quadrature."""
    law = NOISE_LAWS[noise]
    found: list[dict[tuple[int, ...], float]] = []
    for side in (0, 1):
        centres = np.array([kind[side] for kind in kinds]) / scale
        steps = np.linspace(-40, 40, 81)
        cuts = np.unique(np.concatenate([centres.min() + steps, centres.max() + steps, centres]))
        found.append(dict(_orders(centres, [kind.size for kind in kinds], k, law.pdf, law.cdf, cuts)))
    numbers = [math.prod(math.perm(kind.size, s.count(t)) for t, kind in enumerate(kinds)) for s in found[0]]
    return Pair(*(np.log([law[s] for s in found[0]]) for law in found), np.array(numbers, float))


def _orders(
    centres: Floats, sizes: list[int], k: int, pdf: Callable, cdf: Callable, cuts: Floats
) -> Iterator[tuple[tuple[int, ...], float]]:
    x, _ = np.polynomial.legendre.leggauss(16)
    half = np.diff(cuts)[:, None] / 2
    grid, matrix = cuts[:-1, None] + half + half * x, _antiderivative(x)
    density, below = [pdf(grid - c) for c in centres], [cdf(grid - c) for c in centres]

    def smallest_first(left: tuple[int, ...], before: Floats) -> Iterator[tuple[tuple[int, ...], float]]:
        for t in (t for t, size in enumerate(left) if size):
            parts = half * ((density[t] * before) @ matrix.T)
            offsets = np.concatenate([[0.0], np.cumsum(parts[:, -1])])
            rest = (*left[:t], left[t] - 1, *left[t + 1 :])
            if sum(rest):
                for head, p in smallest_first(rest, parts[:, :-1] + offsets[:-1, None]):
                    yield (*head, t), p
            else:
                yield (t,), float(offsets[-1])

    for chosen in itertools.product(*(range(size + 1) for size in sizes)):
        if sum(chosen) == k:
            others = math.prod(b ** (n - a) for a, b, n in zip(chosen, below, sizes, strict=True))
            yield from smallest_first(chosen, others * np.ones_like(grid))
