"""The ranks of the largest noisy counts: one noise for all mechanisms that add it to counts, as order statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from math import isqrt

import numpy as np
from flint import arb
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.blocks import Blocks, even_cuts
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import float_rate, of_exponential
from private_topk.transforms.mechanisms.exact.order_statistics import Levels, largest_ranks
from private_topk.transforms.mechanisms.exact.reals import ball, precision

__all__ = ["noisy_ranks", "normal_quantile"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_LN2 = math.log(2)
_ERROR = 2.0**-28
"""Of a noise for each unit of 1 + A: A is known to one part in 2**31, and no noise moves by more than that of 1 + A.
The rest is for the platform's logarithms, and for the normal quantile's 2**-32. Beyond `_FARTHEST`, either way, doubles
bound nothing: the normal quantile ends there, and further on so do they."""
_FARTHEST = 360.0


def noisy_ranks(histogram: Histogram, scale: Fraction, noise: str, k: int, draw: Draw, lane: int = 0) -> Indices:
    """The ranks of the k largest count + scale * noise, in decreasing order of that, exactly; shape (k,).

    Args:
        scale: the noise's scale in counts (for the Gaussian: its standard deviation).
        noise: a name in NOISES.
        k: 1 <= k <= the number of items.
        draw, lane: where the noise comes from; use a lane of its own for every call on one draw.

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
    return largest_ranks(histogram, Blocks.of(histogram, k, cuts, rounded=True), levels, k, draw, lane)


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


_FIRST, _LAST = math.sqrt(2 * _LN2) - 1e-9, 27.0
_KNOTS = (_FIRST, 2.2, 4.5, 11.0, _LAST)
_DEGREE = 24
_PIECES, _TERMS = 32, 6  # of each unit, and of each piece


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
