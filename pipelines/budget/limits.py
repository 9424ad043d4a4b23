"""How large and how small a budget may be, so that all arithmetic on it ends, and no float of it is 0 or infinite."""

from __future__ import annotations

import math
from fractions import Fraction

from private_topk.transforms.errors import Refusal, verbatim
from private_topk.transforms.mechanisms.parameters import plain

__all__ = ["at_least_0", "check_delta", "check_epsilon", "check_windows"]

_LEAST, _MOST = Fraction(1, 10**100), 10**6
_MOST_WINDOWS = 10**15


def at_least_0(name: str, value: Fraction | float) -> Fraction:
    """A number as the fraction that it is. Raises Refusal for a negative one, or none."""
    try:
        number = Fraction(value)
    except (TypeError, ValueError, OverflowError):
        raise Refusal(name, f"must be a finite number, got {verbatim(repr(value))}") from None
    if number < 0:
        raise Refusal(name, f"must be at least 0, got {plain(number)}")
    return number


def check_epsilon(epsilon: Fraction | float, field: str = "epsilon") -> None:
    """Raise Refusal unless a total epsilon is from 1e-100 to 1e6: beyond these it is a slip of the pen."""
    if not 0 < epsilon < math.inf:
        raise Refusal(field, f"must be a positive finite number, got {plain(epsilon)}")
    if epsilon > _MOST:
        raise Refusal(field, f"must be at most 1e+06, got {plain(epsilon)}", "beyond 10 or so little is promised")
    if epsilon < _LEAST:
        raise Refusal(field, f"must be at least 1e-100, got {plain(epsilon)}")


def check_delta(delta: Fraction | float, field: str = "delta") -> None:
    """Raise Refusal unless a total delta is 0, or from 1e-100 to below 1."""
    if not 0 <= delta < 1:
        raise Refusal(field, f"must be at least 0 and below 1, got {plain(delta)}")
    if 0 < delta < _LEAST:
        raise Refusal(field, f"must be 0 or at least 1e-100, got {plain(delta)}")


def check_windows(windows: int, field: str) -> None:
    """Raise Refusal unless a number of windows is from 1 to 10**15."""
    if not 1 <= windows <= _MOST_WINDOWS:
        least = f"at least 1, got {windows}" if windows < 1 else "at most 10**15"
        raise Refusal(field, f"must be {least}")
