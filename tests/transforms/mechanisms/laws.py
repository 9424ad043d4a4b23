"""Exact laws of the item-by-item mechanisms on small domains, from their definitions and not from how they are drawn.

A law is computed once for sorted counts that start at 0 and relabelled: no mechanism here knows an item but by its
count, nor a count but by its differences.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
from flint import arb
from numpy.typing import NDArray

from tests.transforms.mechanisms.noise_laws import NOISE_LAWS

Law = dict[tuple[int, ...], arb]
Floats = NDArray[np.float64]

QUADRATURE_ERROR = 1e-12


def canonical(law: Callable[..., Law]) -> Callable[..., Law]:
    """Make a law of sorted counts from 0 up into one of any counts, remembering what was found."""
    known = cache(law)

    def relabelled(counts: Sequence[int], k: int, *rest: object) -> Law:
        order = sorted(range(len(counts)), key=lambda i: counts[i])
        base = tuple(counts[i] - min(counts) for i in order)
        return {tuple(order[i] for i in answer): p for answer, p in known(base, k, *rest).items()}

    return relabelled


@canonical
def peeling(counts: Sequence[int], k: int, share: Fraction) -> Law:
    """k exponential mechanisms in a row: weights exp(share * count) over the items left."""
    weight = [_exp(share * c) for c in counts]

    def chance(answer: tuple[int, ...]) -> arb:
        p = arb(1)
        for turn, i in enumerate(answer):
            p *= weight[i] / sum((w for j, w in enumerate(weight) if j not in answer[:turn]), arb(0))
        return p

    return {answer: chance(answer) for answer in itertools.permutations(range(len(counts)), k)}


@canonical
def permute_and_flip(counts: Sequence[int], k: int, share: Fraction) -> Law:
    """k rounds, each by definition: walk a random order of the items, take item i with exp(share (c_i - max))."""

    @cache
    def one_round(left: tuple[int, ...]) -> dict[int, arb]:
        top = max(counts[i] for i in left)
        law = dict.fromkeys(left, arb(0))
        for order in itertools.permutations(left):
            reached = arb(1) / math.factorial(len(left))
            for i in order:
                law[i] += reached * _exp(share * (counts[i] - top))
                reached *= 1 - _exp(share * (counts[i] - top))
        return law

    def rounds(left: tuple[int, ...], depth: int) -> Iterator[tuple[tuple[int, ...], arb]]:
        if not depth:
            yield (), arb(1)
            return
        for i, p in one_round(left).items():
            for tail, q in rounds(tuple(j for j in left if j != i), depth - 1):
                yield (i, *tail), p * q

    return dict(rounds(tuple(range(len(counts))), k))


@canonical
def noisy_order(counts: Sequence[int], k: int, noise: str, scale: Fraction) -> Law:
    """The k largest of count + scale * noise, in order, by nested quadrature."""
    law = NOISE_LAWS[noise]
    centres = np.array([float(c / scale) for c in counts])
    steps = np.linspace(-40, 40, 81)
    cuts = np.unique(np.concatenate([centres.min() + steps, centres.max() + steps, centres]))
    chances = order_chances(centres, k, law.pdf, law.cdf, cuts, 16)
    return {answer: arb(p, QUADRATURE_ERROR) for answer, p in chances.items()}


@canonical
def gamma_order(counts: Sequence[int], k: int, epsilon: Fraction) -> Law:
    """The k largest of count + R * U, in order: R of density R**d exp(-epsilon R), U uniform in [-1, 1]**d."""
    centres, d = np.array([float(c * epsilon) for c in counts]), len(counts)
    # Given R the chances are polynomials in R over R**d, other ones wherever two intervals begin or cease to meet.
    ends = np.unique([0.0, *(abs(a - b) / 2 for a in centres for b in centres)])
    x, w = np.polynomial.legendre.leggauss(12)
    middle, half = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
    radii, weights = (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()
    weights = weights * np.exp(-radii)
    y, v = np.polynomial.laguerre.laggauss(10)
    radii, weights = np.append(radii, ends[-1] + y), np.append(weights, np.exp(-ends[-1]) * v)
    law = dict.fromkeys(itertools.permutations(range(d), k), 0.0)
    for radius, weight in zip(radii, weights * radii**d / math.factorial(d), strict=True):
        flat = _Flat(radius)
        cuts = np.unique(np.concatenate([centres - radius, centres + radius]))
        for answer, p in order_chances(centres, k, flat.pdf, flat.cdf, cuts, 8).items():
            law[answer] += weight * p
    return {answer: arb(p, QUADRATURE_ERROR) for answer, p in law.items()}


class _Flat:
    """The uniform law on [-radius, radius]."""

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def pdf(self, x: Floats) -> Floats:
        return (np.abs(x) < self.radius) / (2 * self.radius)

    def cdf(self, x: Floats) -> Floats:
        return np.clip((x / self.radius + 1) / 2, 0, 1)


def order_chances(
    centres: Floats, k: int, pdf: Callable[[Floats], Floats], cdf: Callable[[Floats], Floats], cuts: Floats, nodes: int
) -> dict[tuple[int, ...], float]:
    """P(the k largest of centre + noise are s_1, ..., s_k, in order); pdf is smooth between the cuts, 0 beyond them."""
    x, _ = np.polynomial.legendre.leggauss(nodes)
    half = np.diff(cuts)[:, None] / 2
    grid = cuts[:-1, None] + half + half * x
    matrix = _antiderivative(x)
    density, below = [pdf(grid - c) for c in centres], [cdf(grid - c) for c in centres]

    def integral(values: Floats) -> tuple[Floats, float]:
        parts = half * (values @ matrix.T)
        offsets = np.concatenate([[0.0], np.cumsum(parts[:, -1])])
        return parts[:, :-1] + offsets[:-1, None], float(offsets[-1])

    def orders(left: frozenset[int], below_them: Floats) -> Iterator[tuple[tuple[int, ...], float]]:
        for i in left:
            running, whole = integral(density[i] * below_them)
            if len(left) == 1:
                yield (i,), whole
            else:
                yield from (((*head, i), p) for head, p in orders(left - {i}, running))

    chances: dict[tuple[int, ...], float] = {}
    for chosen in itertools.combinations(range(len(centres)), k):
        others = [below[j] for j in range(len(centres)) if j not in chosen]
        chances |= orders(frozenset(chosen), np.prod([np.ones_like(grid), *others], axis=0))
    return chances


def _antiderivative(x: Floats) -> Floats:
    """The matrix that takes values at the nodes x of [-1, 1] to their integrals from -1 to each node, and to 1."""
    legendre = np.polynomial.legendre
    to_coefficients = np.linalg.inv(legendre.legvander(x, len(x) - 1))
    ends = np.append(x, 1.0)
    integrals = [legendre.legval(ends, legendre.legint(row, lbnd=-1)) for row in np.eye(len(x))]
    return np.array(integrals).T @ to_coefficients


def _exp(exponent: Fraction) -> arb:
    return (arb(exponent.numerator) / exponent.denominator).exp()
