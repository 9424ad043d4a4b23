"""A gamma distributed real number, defined by its bits, in time that does not depend on its shape."""

from __future__ import annotations

import itertools
from fractions import Fraction

from flint import arb

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import NOISES
from private_topk.transforms.mechanisms.exact.reals import Real, ball, greater, uniform

__all__ = ["gamma_real"]

_WORDS = 3  # for each proposal


def gamma_real(shape: int, draw: Draw, lane: int) -> Real:
    """The sum of `shape` >= 1 standard exponentials, in law.

    Marsaglia & Tsang 2000: with a = shape - 1/3, c = 1 / sqrt(9 a) and x standard normal, a (1 + c x)**3 is taken with
    probability exp(x**2 / 2 + a - a v + a log v), v = (1 + c x)**3: at most 1 for every x. The number is a function
    of real numbers and the decision exact, so the law is; at least 95 of 100 proposals are taken.
    """
    a = Fraction(3 * shape - 1, 3)
    proposals = (_proposal(a, draw, lane, number) for number in itertools.count())
    return next(value for value in proposals if value is not None)


def _proposal(a: Fraction, draw: Draw, lane: int, number: int) -> Real | None:
    """Proposal `number`, or None where it is not taken."""
    first, second, chance = (uniform(draw, lane, _WORDS * number + i) for i in range(_WORDS))

    def base() -> arb:
        return 1 + NOISES["gaussian"].quantile(first(), second()) / (9 * ball(a)).sqrt()

    def exponent() -> arb:
        v = base() ** 3
        x = (base() - 1) * (9 * ball(a)).sqrt()
        return x * x / 2 + ball(a) * (1 - v + v.log())

    if not greater(base, lambda: arb(0)) or not greater(exponent, lambda: chance().log()):
        return None
    return lambda: ball(a) * base() ** 3
