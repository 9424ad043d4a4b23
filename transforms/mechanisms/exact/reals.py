"""Exact decisions by ball arithmetic.

A float sampler is not differentially private: rounding makes outcomes possible on one data set that are impossible on
its neighbour (Mironov 2012). So a *real number* is here a function of no arguments that returns a ball (`flint.arb`)
enclosing it at the working precision, and every decision is taken only when the balls are disjoint; until then the
precision doubles. The answer is a property of the real numbers and so the same on every machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction

from flint import arb, ctx, fmpq

from private_topk.transforms.mechanisms.exact.bits import Draw

__all__ = ["Real", "ball", "floor", "greater", "precision", "relative_float", "uniform"]

Real = Callable[[], arb]

_START_PRECISION = 96
_LOCK = threading.RLock()  # flint's precision is one setting for the whole process


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


def uniform(draw: Draw, lane: int, index: int, known: Iterable[int] = ()) -> Real:
    """The real number in (0, 1) whose binary digits are the words at (lane, index), level after level.

    `known` are the words of the first levels, for callers that fetch many at a time.
    """
    words = list(known)

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
