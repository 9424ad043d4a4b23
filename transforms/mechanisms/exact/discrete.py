"""Exact noise on the integers: the discrete Laplace and Gaussian distributions, and what they cost.

The samplers are those of Canonne, Kamath & Steinke 2020 (Algorithms 1, 2 and 3): integers and fair bits throughout, no
real number is ever rounded. They take whatever number of sequential bits they need.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import floor, isqrt

from flint import arb

from private_topk.transforms.mechanisms.exact.accounting import at_most, gaussian_delta, gaussian_scale
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.reals import Real, ball

__all__ = ["discrete_gaussian", "discrete_gaussian_delta", "discrete_gaussian_variance", "discrete_laplace"]

_SUMMED = 1 << 12  # up to this variance of their sum the terms are added one by one


def discrete_laplace(draw: Draw, scale: Fraction) -> int:
    """An integer x with probability in proportion to exp(-|x| / scale)."""
    t, s = scale.numerator, scale.denominator
    while True:
        fine = draw.below(t)
        if not _heads(draw, Fraction(fine, t)):
            continue
        whole = 0
        while _heads(draw, Fraction(1)):
            whole += 1
        size, negative = (fine + t * whole) // s, draw.below(2)
        if size or not negative:
            return -size if negative else size


def discrete_gaussian(draw: Draw, variance: Fraction) -> int:
    """An integer x with probability in proportion to exp(-x**2 / (2 variance)): Laplace proposals, thinned."""
    t = isqrt(floor(variance)) + 1
    while True:
        x = discrete_laplace(draw, Fraction(t))
        if _heads(draw, (abs(x) - variance / t) ** 2 / (2 * variance)):
            return x


def _heads(draw: Draw, exponent: Fraction) -> bool:
    """True with probability exp(-exponent)."""
    while exponent > 1:
        if not _heads(draw, Fraction(1)):
            return False
        exponent -= 1
    # 1 - x + x**2/2! - ...: the run of successes with chances x, x/2, x/3, ... has even length.
    run = 0
    while draw.below(exponent.denominator * (run + 1)) < exponent.numerator:
        run += 1
    return run % 2 == 0


def discrete_gaussian_delta(epsilon: Fraction, variance: Fraction, moved: int) -> Real:
    """A delta at which discrete Gaussian noise on `moved` counts, each off by 1, is (epsilon, delta)-DP.

    The privacy loss depends on the sum S of the `moved` = j noises alone, so delta is the sum over s of
    max(P(S = s) - exp(epsilon) P(S = s + j), 0) (Canonne, Kamath & Steinke 2020, Theorem 7 for j = 1).
    With v the variance, P(S = s) is exp(-s**2 / 2jv) times a lattice sum that repeats with period j; Poisson summation
    bounds that by its value at 0, at most theta**j / sqrt(2 pi j v), theta = 1 + 2 q + 2 q**4 + ..., q = exp(-pi**2 v).
    So this is exact up to a factor theta**j, which for v >= 4 differs from 1 by less than 1e-16 j; where j v is large
    the sum is bounded by its integral, at a price of less than one part in a hundred.
    """
    total = variance * moved

    def value() -> arb:
        q = (-(arb.pi() ** 2) * ball(variance)).exp()
        theta = 1 + 2 * q / (1 - q**3)
        excess = _summed if total <= _SUMMED else _integrated
        return theta**moved * excess(epsilon, variance, moved) / (2 * arb.pi() * ball(total)).sqrt()

    return value


def _summed(epsilon: Fraction, variance: Fraction, moved: int) -> arb:
    """Just above the sum over s of h(s) = max(f(s) - exp(epsilon) f(s + j), 0), f(s) = exp(-s**2 / 2jv)."""
    first = floor(epsilon * variance - Fraction(moved, 2)) + 1  # h is 0 before
    lower, _ = _tail(first + moved, variance * moved)
    whole, rest = _tail(first, variance * moved)
    return whole + rest - ball(epsilon).exp() * lower


def _tail(first: int, v: Fraction) -> tuple[arb, arb]:
    """Most of the sum over s >= first of exp(-s**2 / 2v), and a bound on what is left."""
    w, last = ball(v), max(first, 0) + 8 * (isqrt(floor(v)) + 1)
    term, ratio, step = (-(arb(first) ** 2) / (2 * w)).exp(), (-arb(2 * first + 1) / (2 * w)).exp(), (-1 / w).exp()
    whole = arb(0)
    for _ in range(first, last):
        whole, term, ratio = whole + term, term * ratio, ratio * step
    # What is left falls at least as fast as a geometric series.
    return whole, term / (1 - ratio)


def _integrated(epsilon: Fraction, variance: Fraction, moved: int) -> arb:
    """Above the same sum: the integral of h plus an eighth of the variation of its slope (midpoint rule).

    With w = jv, h is f(s) (1 - exp(-(s - z) / v)) from its zero z on. From sqrt(w) on f is convex and falls, so the
    variation of h' is at most 5 f(z) / v: f(z) / v at z, and integrating |f''|, 2 |f'| / v and f / v**2 by parts the
    rest. Where z comes earlier the variation of f', 4 exp(-1/2) / sqrt(w), comes on top.
    """
    zero, total = epsilon * variance - Fraction(moved, 2), variance * moved
    height = (-ball(zero**2 / (2 * total))).exp() if zero > 0 else arb(1)
    variation = 5 * height / ball(variance)
    if zero < 0 or zero**2 < total:
        variation += 4 * (-arb(0.5)).exp() / ball(total).sqrt()
    return (2 * arb.pi() * ball(total)).sqrt() * gaussian_delta(epsilon, variance, Fraction(moved))() + variation / 8


@lru_cache(maxsize=1024)
def discrete_gaussian_variance(epsilon: Fraction, delta: Fraction, moved: int) -> Fraction:
    """The least variance, to one part in a million, for which discrete Gaussian noise is (epsilon, delta)-DP.

    The continuous Gaussian's is where the search starts: the two differ by little. Cost: about 10 ms, once.
    """

    def within(variance: Fraction) -> bool:
        return at_most(discrete_gaussian_delta(epsilon, variance, moved), delta)

    bad, good = Fraction(0), gaussian_scale(epsilon, delta, Fraction(moved)) ** 2
    good = Fraction(float(good))
    while not within(good):
        bad, good = good, good * Fraction(17, 16)
    bad = bad or good / 2
    while within(bad):
        bad, good = bad / 2, bad
    while good - bad > good / 2**20:
        middle = (good + bad) / 2
        good, bad = (middle, bad) if within(middle) else (good, middle)
    return good
