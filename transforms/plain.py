"""Parameters as they are written, in messages and in files."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import Any

__all__ = ["plain"]


def plain(value: Any) -> Any:  # noqa: ANN401 - parameters differ in type
    """A value as JSON can hold it. A fraction that a float is written as is that float, so that 1/10 is named 0.1."""
    if isinstance(value, Fraction):
        with suppress(OverflowError):
            return float(value) if Fraction(repr(float(value))) == value else str(value)
    return value if isinstance(value, int | float | str | bool | None) else str(value)
