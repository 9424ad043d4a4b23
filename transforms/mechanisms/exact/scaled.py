"""Positive numbers of any magnitude, rounded up to integers times powers of two: the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from flint import arb

from private_topk.transforms.mechanisms.exact.reals import Real, precision

__all__ = ["LOG2_E", "ONE", "Scaled", "rounded_up", "whole_numbers"]

_DIGITS = 64

LOG2_E = Fraction(0x171547652B82FE17, 2**60)
"""Just below log2(e)."""


class Scaled(NamedTuple):
    """The number mantissa * 2**exponent, mantissa > 0, both integers of any size: a float that never overflows."""

    mantissa: int
    exponent: int

    def ball(self) -> arb:
        """Its ball at the working precision."""
        return arb((self.mantissa, self.exponent))

    def shortened(self) -> Scaled:
        """This number with at most 64 binary digits, rounded up."""
        surplus = self.mantissa.bit_length() - _DIGITS
        return Scaled(-(-self.mantissa >> surplus), self.exponent + surplus) if surplus > 0 else self


ONE = Scaled(1, 0)


def rounded_up(value: Real) -> Scaled:
    """The least number with 64 binary digits that is at least a positive real which has more of them."""
    bits = 96
    while True:
        with precision(bits):
            number = value()
            if number > 0:
                mantissa, exponent = number.mid().man_exp()
                start = int(exponent) + int(mantissa).bit_length() - _DIGITS
                # The middle of the ball may lie on the other side of a power of two.
                for shift in (start, start + 1, start - 1):
                    scaled = (number * arb((1, -shift))).ceil().unique_fmpz()
                    if scaled is not None and 1 << (_DIGITS - 1) < int(scaled) <= 1 << _DIGITS:
                        return Scaled(int(scaled), shift)
        bits *= 2


def whole_numbers(numbers: Sequence[Scaled]) -> tuple[list[int], int]:
    """Integers w and one exponent e with w * 2**e >= number for each, rounded up, the largest having 64 to 128 digits.

    The numbers are to have at most 64 digits each.
    """
    exponent = max(number.exponent for number in numbers) - _DIGITS
    return [-(-m << _DIGITS >> min(exponent + _DIGITS - e, 2 * _DIGITS)) for m, e in numbers], exponent
