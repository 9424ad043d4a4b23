"""Positive numbers of any magnitude, rounded up to integers times powers of two: the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from flint import arb
from numpy.typing import NDArray

__all__ = ["LOG2_E", "Magnitudes", "Scaled"]

LOG2_E = Fraction(0x171547652B82FE17, 2**60)
"""Just below log2(e)."""


class Scaled(NamedTuple):
    """The number mantissa * 2**exponent, mantissa > 0, both integers of any size: a float that never overflows."""

    mantissa: int
    exponent: int

    def ball(self) -> arb:
        """Its ball at the working precision."""
        return arb((self.mantissa, self.exponent))


@dataclass(frozen=True, eq=False)
class Magnitudes:
    """The numbers mantissas * 2**exponents, float64 from 1/2 to 1 and int64, shape (n,) both.

    They come from sums, products, quotients and powers of two alone, which IEEE 754 defines to the last bit.
    """

    mantissas: NDArray[np.float64]
    exponents: NDArray[np.int64]

    @classmethod
    def of(cls, floats: NDArray[np.float64], exponents: NDArray[np.int64] | int = 0) -> Magnitudes:
        """floats * 2**exponents."""
        mantissas, shifts = np.frexp(floats)
        return cls(mantissas, (shifts + exponents).astype(np.int64))

    @classmethod
    def above(cls, whole: int) -> Magnitudes:
        """One number that is just above an integer of any size, > 0."""
        shift = max(0, whole.bit_length() - 52)
        return cls.of(np.array([float((whole >> shift) + 1)]), shift)

    @classmethod
    def joined(cls, *parts: Magnitudes) -> Magnitudes:
        """All numbers of the parts."""
        return cls(np.concatenate([p.mantissas for p in parts]), np.concatenate([p.exponents for p in parts]))

    def at(self, places: NDArray[np.int64]) -> Magnitudes:
        """Those at some places."""
        return Magnitudes(self.mantissas[places], self.exponents[places])

    def moved(self, firsts: NDArray[np.int64], others: Magnitudes) -> Magnitudes:
        """Each one's predecessor, and at the places `firsts`, of which 0 is one, the others."""
        mantissas, exponents = np.empty_like(self.mantissas), np.empty_like(self.exponents)
        mantissas[1:], exponents[1:] = self.mantissas[:-1], self.exponents[:-1]
        mantissas[firsts], exponents[firsts] = others.mantissas, others.exponents
        return Magnitudes(mantissas, exponents)

    def times(self, other: Magnitudes) -> Magnitudes:
        """The products, rounded to the nearest."""
        return Magnitudes.of(self.mantissas * other.mantissas, self.exponents + other.exponents)

    def over(self, other: Magnitudes) -> NDArray[np.float64]:
        """The quotients, of numbers that are not much larger than the others; shape (n,)."""
        return np.ldexp(self.mantissas / other.mantissas, np.maximum(self.exponents - other.exponents, -1000))
