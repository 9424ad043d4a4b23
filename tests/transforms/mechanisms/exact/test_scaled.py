from __future__ import annotations

from fractions import Fraction

from flint import arb

from private_topk.transforms.mechanisms.exact.scaled import Scaled, rounded_up, whole_numbers


def test_rounded_up() -> None:
    third = rounded_up(lambda: arb(1) / 3)
    assert 0 < third.mantissa * Fraction(2) ** third.exponent - Fraction(1, 3) < Fraction(1, 2**64)
    just_below_one = rounded_up(lambda: 1 - (arb(-200)).exp())
    assert just_below_one == Scaled(2**64, -64)
    tiny = rounded_up(lambda: (arb(-(10**9))).exp())
    assert tiny.mantissa.bit_length() == 64 and -1442695105 < tiny.exponent < -1442695095


def test_whole_numbers_are_rounded_up() -> None:
    numbers = [Scaled(3, 0), Scaled(2**64 - 1, -70), Scaled(1, -(10**12))]
    wholes, exponent = whole_numbers(numbers)
    unit = Fraction(2) ** exponent
    assert all(
        w * unit >= n.mantissa * Fraction(2) ** max(n.exponent, -200) for w, n in zip(wholes, numbers, strict=True)
    )
    assert wholes[2] == 1 and wholes[0] * unit == 3
    assert Scaled(2**80 + 1, 5).shortened() == Scaled(2**63 + 1, 22)
