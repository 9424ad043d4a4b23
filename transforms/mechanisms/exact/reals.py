"""Exact decisions by ball arithmetic.

A float sampler is not differentially private: rounding makes outcomes possible on one data set that are impossible on
its neighbour (Mironov 2012). So a *real number* is here a function of no arguments that returns a ball (`flint.arb`)
enclosing it at the working precision, and every decision is taken only when the balls are disjoint; until then the
precision doubles. The answer is a property of the real numbers and so the same on every machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

from flint import arb, ctx, fmpq, fmpz

from private_topk.transforms.mechanisms.exact.bits import Draw

Real = Callable[[], arb]

_START_PRECISION = 96
_LOCK = threading.RLock()  # flint's precision is one setting for the whole process
LOG2_E = Fraction(0x171547652B82FE17, 2**60)
"""Just below log2(e)."""
_PARTS = 256


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
