"""Exact noise on the integers: the discrete Laplace distribution.

The sampler is that of Canonne, Kamath & Steinke 2020 (Algorithms 1 and 2): integers and fair bits throughout, no real
number is ever rounded. It takes whatever number of sequential bits it needs.
"""

from __future__ import annotations

from fractions import Fraction

from private_topk.transforms.mechanisms.exact.bits import Draw

__all__ = ["discrete_laplace"]


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
