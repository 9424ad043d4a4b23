"""Laws of noisy maxima over all k-sets, by listing every set: nothing here is shared with the samplers.

P(y) is the integral of f(x - s_y) * product over z != y of F(x - s_z). With a_z = exp(s_z - max s) and
w = exp(max s - x) every distribution function of the five noises is a simple function of a_z * w.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from flint import arb, arb_poly, ctx

Counts = tuple[int, ...]
Set = tuple[int, ...]
Loss = Callable[[Counts, Set], Fraction]

ROUNDING = 1e-12
"""How far from 1 the sum of a law found by quadrature in floats may be; the ones in balls enclose 1."""


def canonical_loss(gamma: Fraction) -> Loss:
    """(1 - gamma) max(M, m) - gamma m, M the largest count left out, m the smallest one taken."""

    def loss(counts: Counts, y: Set) -> Fraction:
        smallest = min(counts[i] for i in y)
        return (1 - gamma) * max([c for i, c in enumerate(counts) if i not in y] + [smallest]) - gamma * smallest

    return loss


def joint_loss(counts: Counts, y: Set) -> Fraction:
    """The largest difference of sorted counts."""
    taken = sorted((counts[i] for i in y), reverse=True)
    return Fraction(max(c - t for c, t in zip(sorted(counts, reverse=True), taken, strict=False)))


def law(loss: Loss, rate: Fraction, noise: str, counts: Counts, k: int) -> dict[Set, arb]:
    """The probability of every k-set when the largest noise - rate * loss wins."""
    sets = list(itertools.combinations(range(len(counts)), k))
    losses = [loss(counts, y) for y in sets]
    excess = [rate * (value - min(losses)) for value in losses]
    return dict(zip(sets, _OF_NOISE[noise](excess), strict=True))


def _gumbel(excess: list[Fraction]) -> list[arb]:
    weights = [_ball(-e).exp() for e in excess]
    return [w / sum(weights) for w in weights]


def _exponential(excess: list[Fraction]) -> list[arb]:
    """Permute-and-flip: the integral over 0 < w < 1 of a_y times the product of the other 1 - a_z w."""
    before, ctx.prec = ctx.prec, 300
    try:
        factors = [_ball(-e).exp() for e in excess]

        def probability(y: int) -> arb:
            product = math.prod((arb_poly([1, -a]) for z, a in enumerate(factors) if z != y), start=arb_poly([1]))
            return factors[y] * product.integral()(arb(1))

        known = {e: probability(excess.index(e)) for e in set(excess)}
        return [known[e] for e in excess]
    finally:
        ctx.prec = before


def _half_logistic(excess: list[Fraction]) -> list[arb]:
    a = _factors(excess)
    w, weights = _legendre(0.0, 1.0)
    F = (1 - a * w) / (1 + a * w)
    return _balls((weights * 2 * a / (1 + a * w) ** 2 * F.prod(axis=0) / F).sum(axis=1))


def _logistic(excess: list[Fraction]) -> list[arb]:
    # w = 1 / v - 1 brings 0 < w < infinity to 0 < v < 1.
    a = _factors(excess)
    total = np.zeros(len(a))
    cuts = np.geomspace(a.min(), 2, 2 + math.ceil(-math.log(a.min()))) / 2
    for low, high in itertools.pairwise([0.0, *cuts]):
        v, weights = _legendre(low, high)
        rest = v + a * (1 - v)
        F = v / rest
        total += (weights * a / rest**2 * F.prod(axis=0) / F).sum(axis=1)
    return _balls(total)


def _laplace(excess: list[Fraction]) -> list[arb]:
    # Piecewise smooth between the places where some a_z * w = 1; beyond the last one a power of w.
    a = _factors(excess)
    ends = np.unique(1 / a)
    total = np.zeros(len(a))
    for start, end in zip([0.0, *ends], ends, strict=False):
        # A piece spans orders of magnitude where losses are far apart: cut it in the logarithm.
        pieces = math.ceil(math.log(end / start)) if start else 1
        for low, high in itertools.pairwise(np.geomspace(start, end, pieces + 1) if start else [start, end]):
            w, weights = _legendre(low, high)
            F = np.where(a * w < 1, 1 - a * w / 2, 1 / (2 * np.maximum(a * w, 1)))
            density = np.where(a * w < 1, a / 2, 1 / (2 * a * w**2))
            total += (weights * density * F.prod(axis=0) / F).sum(axis=1)
    return _balls(total + np.exp(-len(a) * math.log(2 * ends[-1]) - np.log(a).sum()) / len(a))


def _factors(excess: list[Fraction]) -> np.ndarray:
    return np.exp(-np.array(excess, float))[:, None]


def _legendre(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = _NODES
    return (low + high) / 2 + (high - low) / 2 * nodes, weights * (high - low) / 2


def _ball(value: Fraction) -> arb:
    return arb(value.numerator) / value.denominator


def _balls(values: np.ndarray) -> list[arb]:
    return [arb(float(v)) for v in values]


_NODES = np.polynomial.legendre.leggauss(60)
_OF_NOISE = {
    "gumbel": _gumbel,
    "exponential": _exponential,
    "laplace": _laplace,
    "logistic": _logistic,
    "half-logistic": _half_logistic,
}
