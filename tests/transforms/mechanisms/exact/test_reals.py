from __future__ import annotations

import math
import threading
from fractions import Fraction

import pytest
from flint import arb, ctx

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.reals import ball, below_powers_of_two, floor, greater, precision, uniform


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


@pytest.mark.parametrize("bits", [61, 64])
def test_roots_of_two_are_the_next_whole_numbers_below(bits: int) -> None:
    roots = below_powers_of_two(bits)
    assert len(roots) == 256 and roots[0] == 2**bits and roots[128] == math.isqrt(2 ** (2 * bits - 1))
    assert all(root**256 <= 2 ** (256 * bits - i) < (root + 1) ** 256 for i, root in enumerate(roots))
