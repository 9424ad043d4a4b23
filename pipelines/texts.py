"""What a text at a door means: a number, a length of time, a moment. Each raises ValueError with the rule it breaks."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction

from private_topk.transforms.mechanisms.parameters import decimal
from private_topk.transforms.windows.calendar import UNITS

__all__ = ["duration", "fraction", "moment", "number", "one_of", "printable_text", "whole", "window_length"]

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
_LENGTHS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LENGTH_RULE = "a number and one of s, m, h, d, w, such as 7d"


def number(text: str) -> Fraction | float:
    """A number in decimal or scientific notation, exactly: 0.1 is 1/10. 1_5 is none, though Python takes it for 15."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"must be a number, got {text!r}: write it such as 0.5 or 1e-6")
    return decimal(text.strip())


def whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        raise ValueError(f"must be a whole number, got {text!r}")
    return int(text)


def fraction(text: str) -> Fraction:
    """A number as it is written: 0.6 is 3/5, not the float beside it."""
    try:
        if len(text) > 100:
            raise ValueError
        return Fraction(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(f"must be a number such as 0.6 or 3/5, got {text[:100]!r}") from None


def duration(text: str) -> timedelta:
    """A length of time such as 7d, 12h or 90m."""
    found = re.fullmatch(r"([0-9]{1,7})\s*([smhdw])", text.strip())
    if not found or not 0 < int(found[1]) <= 10**6:
        raise ValueError(f"must be {_LENGTH_RULE}; got {text!r}")
    return timedelta(**{_LENGTHS[found[2]]: int(found[1])})


def window_length(text: str) -> timedelta | str:
    """A length of time such as 7d, or the day, week or month of a calendar."""
    if text in UNITS:
        return text
    try:
        return duration(text)
    except ValueError:
        raise ValueError(f"must be {_LENGTH_RULE}, or {', '.join(UNITS)}; got {text!r}") from None


def moment(text: str) -> datetime:
    """A point in time in ISO 8601, without a time zone where none is given."""
    try:
        return datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"must be a date or time such as 2026-01-05, got {text!r}") from None


def printable_text(text: str) -> str:
    if not text or not text.isprintable():
        raise ValueError("must be a printable text")
    return text


def one_of(*names: str) -> Callable[[str], str]:
    """A reading that lets certain words through."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"must be one of {', '.join(names)}; got {text!r}")
        return text

    return read
