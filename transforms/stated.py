"""How a budget is written as a float or text, never as less than it is; and many names as a few."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

_OF_A_FLOAT = 15


def stated(value: Fraction | float) -> float:
    """The float that states a budget: 0.3 for 3/10, as it was given, or what prints as the least above it."""
    exact = Fraction(value)
    nearest = float(exact)
    return nearest if max(Fraction(nearest), Fraction(repr(nearest))) >= exact else math.nextafter(nearest, math.inf)


def number(value: Fraction | float, digits: int = 6, rounding: str = ROUND_CEILING) -> str:
    """A budget as people read it, to so many digits: rounded up, unless it is what is left or allowed."""
    exact = Fraction(value) if digits > _OF_A_FLOAT else Fraction(repr(stated(value)))
    with localcontext() as context:
        context.prec, context.rounding = digits, rounding
        rounded = Decimal(exact.numerator) / Decimal(exact.denominator)
    return f"{rounded:.{digits}g}" if digits > _OF_A_FLOAT else f"{float(rounded):.{digits}g}"


def some(names: Sequence[str], most: int = 4) -> str:
    """The first of some names, and how many more there are."""
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{rest}"
