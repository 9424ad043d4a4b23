from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from private_topk.transforms.mechanisms.exact.reals import NO_END, Powers, ball, below_powers_of_two, precision
from tests.transforms.mechanisms.exact.test_scaled import exact

RATES = [Fraction(1, 10**9), Fraction(1, 300), Fraction(1, 7), Fraction(1, 2), Fraction(3), Fraction(900)]


@pytest.mark.parametrize("rate", RATES)
def test_powers_and_what_they_leave_of_1_are_just_above(rate: Fraction) -> None:
    powers, widths = Powers(rate), [w for w in (1, 2, 3, 7, 40, 333, 10**5, 10**9, 10**10) if rate * w < 10**4]
    falling, left = (
        exact(powers.falling(np.array(widths))),
        exact(powers.widths(np.full(len(widths), 5), 5 + np.array(widths))),
    )
    with precision(20_000):
        for width, power, rest in zip(widths, falling, left, strict=True):
            true = (-ball(rate) * width).exp()
            assert true < ball(power) < true * arb(1.003)
            assert -(-ball(rate) * width).expm1() <= ball(rest) * (1 + arb(2) ** -40)
            assert ball(rest) <= -(-ball(rate) * width).expm1() * arb(1.06)


@pytest.mark.parametrize("bits", [61, 64])
def test_roots_of_two_are_the_next_whole_numbers_below(bits: int) -> None:
    roots = below_powers_of_two(bits)
    assert len(roots) == 256 and roots[0] == 2**bits and roots[128] == math.isqrt(2 ** (2 * bits - 1))
    assert all(root**256 <= 2 ** (256 * bits - i) < (root + 1) ** 256 for i, root in enumerate(roots))


def test_no_end_and_absurd_rates() -> None:
    assert exact(Powers(Fraction(1, 3)).widths(np.array([0]), np.array([NO_END]))) == [1]
    for rate in (Fraction(1, 10**400), Fraction(10**300)):
        powers = Powers(rate)
        assert exact(powers.falling(np.array([0])))[0] >= 1 and powers.falling(np.array([10**9])).exponents[0] >= -(
            2**40
        )
        assert 0 < exact(powers.widths(np.array([0]), np.array([1])))[0] <= 1
