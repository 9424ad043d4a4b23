"""Exact laws of mechanisms on small domains, by enumeration and quadrature, from their definitions.

Nothing here is shared with the samplers. Laws of many items are by *kinds* of items that count alike: all answers with
one sequence of kinds have one probability.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr

Answer = tuple[int, ...]
Law = dict[Answer, float]
Floats = NDArray[np.float64]
Round = Callable[[Floats, Floats], Floats]
"""Counts of kinds and how many of each are left to the log-probability of one item of a kind."""

HALF = Fraction(1, 2)

NOISE_LAWS = {
    "gumbel": stats.gumbel_r,
    "exponential": stats.expon,
    "laplace": stats.laplace,
    "logistic": stats.logistic,
    "half-logistic": stats.halflogistic,
    "gaussian": stats.norm,
}


def canonical(law: Callable[..., Law]) -> Callable[..., Law]:
    """Make a law of sorted counts from 0 up into one of any counts, remembering what was found.

    No mechanism here knows an item but by its count, nor a count but by its differences.
    """
    known = cache(law)

    def relabelled(counts: Sequence[Any], k: int, *rest: object) -> Law:
        order = sorted(range(len(counts)), key=lambda i: counts[i])
        base = tuple(counts[i] - min(counts) for i in order)
        return {tuple(order[i] for i in answer): p for answer, p in known(base, k, *rest).items()}

    return relabelled


# Rounds: k choices, one after the other, among the items left.


def exponential_round(share: float) -> Round:
    def logs(counts: Floats, left: Floats) -> Floats:
        weights = share * (counts - counts[left > 0].max())
        return weights - math.log(left @ np.exp(weights))

    return logs


def flip_round(share: float) -> Round:
    """Permute-and-flip: an item's coin p times the integral over [0, 1] of the product of the others' 1 - p x."""

    def logs(counts: Floats, left: Floats) -> Floats:
        x, w = legendre(20 + int(left.sum()) // 2)
        x, w = (x + 1) / 2, w / 2
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            p = np.exp(share * (counts - counts[left > 0].max()))
            misses = 1 - p[:, None] * x
            return np.log(p) + np.log((w * (misses ** left[:, None]).prod(axis=0) / misses).sum(axis=1))

    return logs


def of_rounds(counts: Sequence[Any], sizes: Sequence[int], k: int, one_round: Round) -> Law:
    """The log-probability of one answer of each sequence of kinds."""
    values = np.array(counts, float)
    known = cache(lambda left: one_round(values, np.array(left, float)).tolist())

    @cache
    def below(left: tuple[int, ...], depth: int) -> list[tuple[Answer, float]]:
        if not depth:
            return [((), 0.0)]
        return [
            ((t, *tail), known(left)[t] + p)
            for t, size in enumerate(left)
            if size
            for tail, p in below((*left[:t], size - 1, *left[t + 1 :]), depth - 1)
        ]

    return dict(below(tuple(sizes), k))


def _of_items(logs: Law) -> Law:
    return {answer: math.exp(p) for answer, p in logs.items()}


@canonical
def peeling(counts: Sequence[Any], k: int, share: Fraction) -> Law:
    """k exponential mechanisms in a row: weights exp(share * count) over the items left."""
    return _of_items(of_rounds(counts, [1] * len(counts), k, exponential_round(float(share))))


@canonical
def permute_and_flip(counts: Sequence[Any], k: int, share: Fraction) -> Law:
    """k rounds of permute-and-flip."""
    return _of_items(of_rounds(counts, [1] * len(counts), k, flip_round(float(share))))


# The k largest noisy counts, in order.


def of_noise(counts: Sequence[Any], sizes: Sequence[int], k: int, noise: str, scale: float) -> Law:
    """The probability of one answer of each sequence of kinds, by nested quadrature."""
    law, centres = NOISE_LAWS[noise], np.array([float(c) / float(scale) for c in counts])
    return dict(_orders(centres, sizes, k, law.pdf, law.cdf, cuts_around(centres), 16))


@canonical
def noisy_order(counts: Sequence[Any], k: int, noise: str, scale: Fraction) -> Law:
    """The k largest of count + scale * noise."""
    return of_noise(counts, [1] * len(counts), k, noise, float(scale))


@canonical
def gamma_order(counts: Sequence[Any], k: int, epsilon: Fraction) -> Law:
    """The k largest of count + R * U: R of density R**d exp(-epsilon R), U uniform in [-1, 1]**d."""
    centres, d = np.array([float(c * epsilon) for c in counts]), len(counts)
    # Given R the chances are polynomials in R over R**d, other ones wherever two intervals begin or cease to meet.
    ends = np.unique([0.0, *(abs(a - b) / 2 for a in centres for b in centres)])
    x, w = legendre(12)
    middle, half = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
    radii, weights = (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()
    weights = weights * np.exp(-radii)
    y, v = np.polynomial.laguerre.laggauss(10)
    radii, weights = np.append(radii, ends[-1] + y), np.append(weights, np.exp(-ends[-1]) * v)
    law: Law = defaultdict(float)
    for radius, weight in zip(radii, weights * radii**d / math.factorial(d), strict=True):
        cuts = np.unique(np.concatenate([centres - radius, centres + radius]))

        def pdf(x: Floats, r: float = radius) -> Floats:
            return (np.abs(x) < r) / (2 * r)

        def cdf(x: Floats, r: float = radius) -> Floats:
            return np.clip((x / r + 1) / 2, 0, 1)

        for answer, p in _orders(centres, [1] * d, k, pdf, cdf, cuts, 8):
            law[answer] += weight * p
    return dict(law)


def cuts_around(centres: Floats) -> Floats:
    """Between which densities around the centres are smooth, as far as any is above 1e-17."""
    return np.unique(np.concatenate([np.arange(centres.min() - 40, centres.max() + 41), centres]))


def _orders(
    centres: Floats, sizes: Sequence[int], k: int, pdf: Callable, cdf: Callable, cuts: Floats, nodes: int
) -> Iterator[tuple[Answer, float]]:
    """P(the k largest of centre + noise are of these kinds, in order); pdf is smooth between the cuts, 0 beyond."""
    x, _ = legendre(nodes)
    half, matrix = np.diff(cuts)[:, None] / 2, _antiderivative(nodes)
    grid = cuts[:-1, None] + half + half * x
    density, below = [pdf(grid - c) for c in centres], [cdf(grid - c) for c in centres]

    def smallest_first(left: tuple[int, ...], before: Floats) -> Iterator[tuple[Answer, float]]:
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
            others = np.ones_like(grid)
            for taken, its, size in zip(chosen, below, sizes, strict=True):
                others = others * its ** (size - taken) if size > taken else others
            yield from smallest_first(chosen, others)


@cache
def legendre(nodes: int) -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(nodes)


@cache
def _antiderivative(nodes: int) -> Floats:
    """The matrix that takes values at the nodes of [-1, 1] to their integrals from -1 to each node, and to 1."""
    series, x = np.polynomial.legendre, legendre(nodes)[0]
    to_coefficients = np.linalg.inv(series.legvander(x, len(x) - 1))
    ends = np.append(x, 1.0)
    integrals = [series.legval(ends, series.legint(row, lbnd=-1)) for row in np.eye(len(x))]
    return np.array(integrals).T @ to_coefficients


# The least noisy loss over whole sequences and sets.


def least_loss(losses: dict[Answer, Any], rate: Fraction, noise: str = "gumbel") -> Law:
    """The answer with the largest noise - rate * loss: an exponential mechanism, permute-and-flip, another noise."""
    sizes = Counter(losses.values())
    values, numbers = [-float(rate * (x - min(sizes))) for x in sizes], list(sizes.values())
    if noise in ("gumbel", "exponential"):
        one_round = exponential_round(1) if noise == "gumbel" else flip_round(1)
        chances = _of_items(of_rounds(values, numbers, 1, one_round))
    else:
        chances = of_noise(values, numbers, 1, noise, 1)
    by_loss = {loss: chances[place,] for place, loss in enumerate(sizes)}
    return {answer: by_loss[loss] for answer, loss in losses.items()}


def sequence_losses(counts: Sequence[Any], k: int, skew: Fraction = HALF) -> dict[Answer, Any]:
    """Of the joint mechanism: max over i of (1 - g) c_i - g c_{s_i}, of every sequence."""
    ranked = sorted(counts, reverse=True)
    return {
        s: max((1 - skew) * ranked[i] - skew * counts[item] for i, item in enumerate(s))
        for s in itertools.permutations(range(len(counts)), k)
    }


def set_losses(counts: Sequence[Any], k: int) -> dict[Answer, Any]:
    """Of joint-set: the largest difference of sorted counts."""
    ranked = sorted(counts, reverse=True)
    return {
        y: max(c - t for c, t in zip(ranked, sorted((counts[i] for i in y), reverse=True), strict=False))
        for y in itertools.combinations(range(len(counts)), k)
    }


def canonical_losses(counts: Sequence[Any], k: int, gamma: Fraction) -> dict[Answer, Any]:
    """(1 - gamma) max(M, m) - gamma m, M the largest count left out, m the smallest one taken."""
    items = range(len(counts))
    least = {y: min(counts[i] for i in y) for y in itertools.combinations(items, k)}
    return {y: (1 - gamma) * max([counts[i] for i in items if i not in y] + [m]) - gamma * m for y, m in least.items()}


@canonical
def best_sequence(
    counts: Sequence[Any], k: int, rate: Fraction, noise: str = "gumbel", skew: Fraction = HALF, most: float = math.inf
) -> Law:
    """Joint's law, or with losses cut off at `most` fast-joint's."""
    return least_loss({s: min(x, most) for s, x in sequence_losses(counts, k, skew).items()}, rate, noise)


def best_set(
    counts: Sequence[Any], k: int, rate: Fraction, noise: str = "gumbel", gamma: Fraction | None = None
) -> Law:
    """Joint-set's law, or canonical's at a gamma."""
    law: Law = defaultdict(float)
    for y, p in _best_set(counts, k, rate, noise, gamma).items():
        law[tuple(sorted(y))] += p
    return dict(law)


@canonical
def _best_set(counts: Sequence[Any], k: int, rate: Fraction, noise: str, gamma: Fraction | None) -> Law:
    losses = set_losses(counts, k) if gamma is None else canonical_losses(counts, k, gamma)
    return least_loss(losses, rate, noise)


def delta_of(scale: float, epsilon: float, sensitivity: float) -> float:
    """Balle & Wang 2018, Theorem 8, as printed there."""
    a, b = sensitivity / (2 * scale), epsilon * scale / sensitivity
    return ndtr(a - b) - math.exp(epsilon) * ndtr(-a - b)
