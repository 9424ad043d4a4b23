from __future__ import annotations

from fractions import Fraction

import numpy as np
from flint import arb

from private_topk.transforms.mechanisms.exact.reals import Magnitudes, Scaled


def exact(numbers: Magnitudes) -> list[Fraction]:
    pairs = zip(numbers.mantissas.tolist(), numbers.exponents.tolist(), strict=True)
    return [Fraction(mantissa) * Fraction(2) ** exponent for mantissa, exponent in pairs]


def test_integers_of_any_size_are_rounded_up() -> None:
    for whole in (1, 2, 3, 2**52 - 1, 2**53 + 1, 3**5000):
        [above] = exact(Magnitudes.above(whole))
        assert whole < above <= whole + 1 + Fraction(whole, 2**50)


def test_products_and_quotients_far_beyond_what_a_float_holds() -> None:
    numbers = Magnitudes.of(np.array([0.75, 3.0, 1e-300]), np.array([5000, -7000, 0]))
    others = Magnitudes.of(np.array([5.0, 0.1, 1.0]), np.array([4998, -6990, 3]))
    products = [a * b for a, b in zip(exact(numbers), exact(others), strict=True)]
    for found, product in zip(exact(numbers.times(others)), products, strict=True):
        assert abs(found / product - 1) < 2.0**-52
    quotients = numbers.over(others)
    assert quotients[0] == 0.6 and abs(quotients[1] * 2**10 / 30 - 1) < 1e-15 and quotients[2] < 1e-300
    assert Magnitudes.joined(numbers, others).at(np.array([4, 0])).exponents.tolist() == [-6993, 5000]


def test_the_ball_of_a_scaled_integer() -> None:
    assert Scaled(3, -2).ball() == arb(0.75)
