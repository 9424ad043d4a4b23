"""The textbook laws of noises, and Kolmogorov's test, of few words of `scipy.special`.

`scipy.stats` has all of this and takes as long to load as Beam does, in every process that runs tests;
`exact/test_noise.py` holds what stands here to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

__all__ = ["NOISE_LAWS", "NoiseLaw", "kolmogorov", "root"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NoiseLaw:
    """Density, P(noise <= x) and P(noise > x), for arrays of any shape; each precise where it is small."""

    pdf: Callable[[Floats], Floats]
    cdf: Callable[[Floats], Floats]
    sf: Callable[[Floats], Floats]


def _positive(x: Floats) -> Floats:
    return np.maximum(x, 0)


NOISE_LAWS = {
    "gumbel": NoiseLaw(
        lambda x: np.exp(-x - np.exp(-x)), lambda x: np.exp(-np.exp(-x)), lambda x: -np.expm1(-np.exp(-x))
    ),
    "exponential": NoiseLaw(
        lambda x: np.exp(-_positive(x)) * (x >= 0), lambda x: -np.expm1(-_positive(x)), lambda x: np.exp(-_positive(x))
    ),
    "laplace": NoiseLaw(
        lambda x: np.exp(-np.abs(x)) / 2,
        lambda x: np.where(x > 0, 1 - np.exp(-np.abs(x)) / 2, np.exp(-np.abs(x)) / 2),
        lambda x: np.where(x > 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2),
    ),
    "logistic": NoiseLaw(
        lambda x: special.expit(x) * special.expit(-x), special.expit, lambda x: special.expit(-x)
    ),
    "half-logistic": NoiseLaw(
        lambda x: 2 * special.expit(x) * special.expit(-x) * (x >= 0),
        lambda x: np.tanh(_positive(x) / 2),
        lambda x: 2 * special.expit(-_positive(x)),
    ),
    "gaussian": NoiseLaw(
        lambda x: np.exp(-x * x / 2) / math.sqrt(2 * math.pi), special.ndtr, lambda x: special.ndtr(-x)
    ),
}  # fmt: skip


def kolmogorov(sample: Sequence[float] | Floats, cdf: Callable[[Floats], Floats]) -> float:
    """How often a sample of the law is as far from it as this one: Kolmogorov's limit, for samples of hundreds."""
    chances, n = cdf(np.sort(sample)), len(sample)
    farthest = max((np.arange(1, n + 1) / n - chances).max(), (chances - np.arange(n) / n).max())
    return float(special.kolmogorov(math.sqrt(n) * farthest))


def root(f: Callable[[float], float], low: float, high: float) -> float:
    """Where f changes its sign between two numbers, as near as floats are, by halving."""
    sign = f(low) > 0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if (f(middle) > 0) == sign else (low, middle)
    return middle
