"""Exact decisions by ball arithmetic.

A float sampler is not differentially private: rounding makes outcomes possible on one data set that are impossible on
its neighbour (Mironov 2012). So a *real number* is here a function of no arguments that returns a ball (`flint.arb`)
enclosing it at the working precision, and every decision is taken only when the balls are disjoint; until then the
precision doubles. The answer is a property of the real numbers and so the same on every machine.

`Scaled`, `Magnitudes` and `Powers` are what envelopes weigh with: positive numbers of any magnitude, rounded up, the
same on every machine too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from flint import arb, ctx, fmpq, fmpz
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw

__all__ = [
    "LOG2_E", "NO_END", "Magnitudes", "Powers", "Real", "Scaled", "ball", "below_powers_of_two", "floor", "greater",
    "precision", "relative_float", "uniform",
]  # fmt: skip

Real = Callable[[], arb]

_START_PRECISION = 96
_LOCK = threading.RLock()  # flint's precision is one setting for the whole process
LOG2_E = Fraction(0x171547652B82FE17, 2**60)
"""Just below log2(e)."""
_PARTS = 256
_MOST = _PARTS << 40  # steps beyond it count as so many
NO_END = -1
"""In the place of a stop."""


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work at `bits` bits. Holds a lock: runners call mechanisms from several threads."""
    with _LOCK:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


def ball(value: Fraction | int) -> arb:
    """The ball of an exact rational at the working precision."""
    return arb(fmpq(value.numerator, value.denominator))


def greater(left: Real, right: Real) -> bool:
    """Whether left > right. Ends with probability 1 for reals of which one is continuous; never call it on equals."""
    bits = _START_PRECISION
    while True:
        with precision(bits):
            a, b = left(), right()
            if a > b:
                return True
            if a < b:
                return False
        bits *= 2


def floor(value: Real) -> int:
    """The integer part of a real that is not itself an integer (or whose ball is exact)."""
    bits = _START_PRECISION
    while True:
        with precision(bits):
            whole = value().floor().unique_fmpz()
        if whole is not None:
            return int(whole)
        bits *= 2


def relative_float(value: Real) -> float:
    """A float within one part in 2**48 of a real that is not 0, or at most 2**-1000 of one that small."""
    bits = _START_PRECISION
    while True:
        with precision(bits):
            enclosure = value()
        if enclosure.rel_accuracy_bits() > 50:
            return float(enclosure.mid())
        bits *= 2


def uniform(draw: Draw, lane: int, index: int) -> Real:
    """The real number in (0, 1) whose binary digits are the words at (lane, index), level after level."""
    words: list[int] = []

    def value() -> arb:
        levels = (ctx.prec >> 6) + 1
        while len(words) < levels:
            words.append(draw.word(lane, index, len(words)))
        number = 0
        for word in words[:levels]:
            number = number << 64 | word
        # The middle of [number, number + 1) / 2**(64 levels), with half that width as the radius.
        return arb((2 * number + 1, -64 * levels - 1), (1, -64 * levels - 1))

    return value


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


def below_powers_of_two(bits: int) -> list[int]:
    """The whole numbers next below 2**(bits - i / 256), or equal to it, for i = 0 .. 255. Cost: 3 ms.

    Eight square roots, each rounded down, are the 256th root rounded down: n <= sqrt(x) says as much of a whole n as
    n <= floor(sqrt(x)) does.
    """
    roots = []
    for i in range(_PARTS):
        root = fmpz(1) << (_PARTS * bits - i)
        for _ in range(_PARTS.bit_length() - 1):
            root = root.isqrt()
        roots.append(int(root))
    return roots


_ROOTS = np.array([float((root >> 12) + 1) * 2.0**-52 for root in below_powers_of_two(64)])
"""Just above 2**(-i / 256)."""


class Powers:
    """Of q = exp(-rate), a positive rational rate."""

    def __init__(self, rate: Fraction) -> None:
        self._rate, self._steps, self._long = rate, _PARTS * LOG2_E * rate, int(64 / rate)

    def falling(self, exponents: NDArray[Any]) -> Magnitudes:
        """q**x for each x >= 0, rounded up by at most 0.3 percent."""
        numerator, denominator = self._steps.numerator, self._steps.denominator
        whole = [min(x * numerator // denominator, _MOST) for x in exponents.tolist()]
        steps = np.array(whole, np.int64)
        return Magnitudes.of(_ROOTS[steps % _PARTS], -(steps // _PARTS))

    def widths(self, starts: NDArray[Any], stops: NDArray[Any]) -> Magnitudes:
        """1 - q**(stop - start) for each, rounded up by at most 5 percent; 1 where there is no stop."""
        numerator, denominator, long = self._rate.numerator, self._rate.denominator, self._long
        pairs = zip(starts.tolist(), stops.tolist(), strict=True)
        widths = [long + 1 if stop == NO_END else stop - start for start, stop in pairs]
        # 64 or more in units of the rate are as good as no end. Integers divide to the nearest double.
        x = np.array([64.0 if width > long else width * numerator / denominator for width in widths])
        # A step is 0.27 percent of a power, so the next one down lies below q**w.
        steps = (x * (_PARTS * float(LOG2_E)) + 2).astype(np.int64)
        power = np.ldexp(_ROOTS[steps % _PARTS], -(steps // _PARTS)) * (1 - 2.0**-40)
        return Magnitudes.of(np.maximum(np.minimum(x * (1 + 2.0**-50), 1 - power), 2.0**-1000))
