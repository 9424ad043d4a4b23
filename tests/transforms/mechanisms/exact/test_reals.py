from __future__ import annotations

import math
import threading
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.reals import (
    NO_END,
    Magnitudes,
    Powers,
    Scaled,
    ball,
    below_powers_of_two,
    floor,
    greater,
    precision,
    uniform,
)


def test_close_reals_are_told_apart_and_precision_comes_back() -> None:
    near = Fraction(1, 10**200)
    before = ctx.prec
    assert greater(lambda: arb(2).sqrt() + ball(near), lambda: arb(2).sqrt())
    assert not greater(lambda: arb(2).sqrt(), lambda: arb(2).sqrt() + ball(near))
    assert ctx.prec == before


def test_floor_near_a_whole_number() -> None:
    assert floor(lambda: 5 + ball(Fraction(1, 10**300))) == 5
    assert floor(lambda: 5 - ball(Fraction(1, 10**300))) == 4
    assert floor(lambda: -(arb(10) ** 40) - arb(2).sqrt() / 2) == -(10**40) - 1
    assert floor(lambda: ball(7)) == 7


def test_a_uniform_has_the_digits_of_its_words() -> None:
    draw = RandomBits.keyed(b"digits").draw()
    words = [draw.word(5, 9, level) for level in range(8)]
    value = uniform(draw, 5, 9)
    exact = sum(Fraction(word, 2 ** (64 * (i + 1))) for i, word in enumerate(words))
    with precision(500):
        enclosure = value()
        assert enclosure.overlaps(ball(exact)) and enclosure.rad() < arb(2) ** -450
    with precision(64):
        assert value().overlaps(enclosure), "fewer digits are the same number"


def test_precision_is_one_threads_at_a_time() -> None:
    """flint's precision belongs to the process: another thread must not lower it within a block."""
    seen: list[int] = []

    def work(bits: int) -> None:
        for _ in range(200):
            with precision(bits):
                seen.append(ctx.prec == bits)

    threads = [threading.Thread(target=work, args=(bits,)) for bits in (80, 160, 320)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(seen) and len(seen) == 600


def test_the_ball_of_a_fraction_encloses_it() -> None:
    with precision(60):
        third = ball(Fraction(1, 3))
        assert 3 * third - 1 == 0 or (3 * third).contains(1)
        assert math.isclose(float(third.mid()), 1 / 3)


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
