"""The published algorithms for items that are not public, in plain numpy: what `benchmarks.hidden` compares with.

Each takes counts (d,), k, epsilon, delta, how many items compete and a numpy generator, and returns at most k indices,
with floats and ordinary randomness. They are here to be compared with, not to be released from.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

Vector = np.ndarray


def limit_domain(
    counts: Vector, k: int, epsilon: float, delta: float, competing: int, rng: np.random.Generator
) -> Vector:
    """Durfee & Rogers 2019, Algorithms 1 and 2: Gumbel noise, and an item bottom that ends the answer."""
    order, top, below = _heads(counts, competing)
    each = _share(epsilon, delta / 2, k)
    bottom = below + 1 + math.log(competing / (delta / 2)) / each + rng.gumbel() / each
    noisy = top + rng.gumbel(size=len(top)) / each
    chosen = np.argsort(-noisy)[:k]
    return order[chosen[noisy[chosen] > bottom]]


def restricted_gumbel(
    counts: Vector, k: int, epsilon: float, delta: float, competing: int, rng: np.random.Generator
) -> Vector:
    """Carvalho & Wang, Algorithm 3 with section 8.2: Gumbel noise at what four shares for the tests leave.

    Those four shares are more than the whole budget where k is small; then half of it, as ours.
    """
    order, top, below = _heads(counts, competing)
    tests = min(4 * _share(epsilon, delta / 2, k), epsilon / 2)
    each = _share(epsilon - tests, delta / 2, k)
    chosen = np.argsort(-(top + rng.gumbel(size=len(top)) / each))[:k]
    return order[_stable(chosen, top, below, tests, delta / 2, rng)]


def restricted_normal(
    bound: int, counts: Vector, k: int, rng: np.random.Generator, *, epsilon: float, delta: float, competing: int
) -> Vector:
    """Carvalho & Wang, Appendix E, with the analytic Gaussian and the tests' share held between a third and a half."""
    order, top, below = _heads(counts, competing)
    tests = epsilon * min(max(4 / bound, 1 / 3), 1 / 2)
    scale = _analytic(epsilon - tests, delta / 2, math.sqrt(min(bound, competing)))
    chosen = np.argsort(-(top + scale * rng.standard_normal(len(top))))[:k]
    return order[_stable(chosen, top, below, tests, delta / 2, rng)]


def weighted_gaussian(
    whole: int, sums: Vector, k: int, rng: np.random.Generator, *, epsilon: float, delta: float, limit: int
) -> Vector:
    """Gopi et al. 2020: noise on the sums of weights min(1, sqrt(whole / t)), and a threshold.

    Args:
        sums: of weights, (d,); whoever holds more than `limit` items has been cut to so many.
    """
    scale = _analytic(epsilon, delta / 2, math.sqrt(whole))
    t = np.arange(1, limit + 1)
    bar = np.max(np.minimum(1, np.sqrt(whole / t)) + scale * norm.isf(-np.expm1(np.log1p(-delta / 2) / t)))
    held = np.flatnonzero(sums)
    noisy = sums[held] + scale * rng.standard_normal(len(held))
    chosen = np.argsort(-noisy)[:k]
    return held[chosen[noisy[chosen] > bar]]


def _heads(counts: Vector, competing: int) -> tuple[Vector, Vector, int]:
    """The items of the largest counts, these counts, and the next one."""
    order = np.argsort(-counts, kind="stable")[: competing + 1]
    return order[:-1], counts[order[:-1]].astype(float), int(counts[order[-1]])


def _stable(chosen: Vector, top: Vector, below: int, epsilon: float, delta: float, rng: np.random.Generator) -> Vector:
    """The chosen up to the first that fails: Carvalho & Wang, Algorithm 1."""
    q = brentq(lambda q: q * (3 - math.log(q)) / 4 - delta, delta / 4096, 1.0)
    threshold = (2 / epsilon) * (math.log(1 / q) + rng.laplace())
    failed = np.flatnonzero(top[chosen] - below - 1 + rng.laplace(scale=2 / epsilon, size=len(chosen)) <= threshold)
    return chosen[: failed[0]] if len(failed) else chosen


def _share(epsilon: float, delta: float, k: int) -> float:
    """The epsilon of one of k draws of bounded range: Dong, Durfee & Rogers 2020."""
    a, b = k / 8, math.sqrt(k * math.log(1 / delta) / 2)
    return max(epsilon / k, (-b + math.sqrt(b * b + 4 * a * epsilon)) / (2 * a))


def _analytic(epsilon: float, delta: float, sensitivity: float) -> float:
    """The least standard deviation: Balle & Wang 2018, Theorem 8."""

    def excess(scale: float) -> float:
        half, shift = sensitivity / (2 * scale), epsilon * scale / sensitivity
        return float(norm.cdf(half - shift) - math.exp(epsilon) * norm.cdf(-half - shift) - delta)

    return float(brentq(excess, sensitivity / (10 * epsilon), 1000 * sensitivity / epsilon))
