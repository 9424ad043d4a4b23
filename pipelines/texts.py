"""What a text at a door means: a number, a length of time, a moment. Each raises ValueError with the rule it breaks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from private_topk.transforms.mechanisms.parameters import decimal
from private_topk.transforms.windows.period import duration, moment, window_length

__all__ = [
    "BY_KIND", "duration", "fraction", "listed", "moment", "name_and_value", "number", "one_of", "printable_text",
    "whole", "whole_or_power", "window_length",
]  # fmt: skip

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
_RATIO = re.compile(r"[+-]?[0-9]{1,50}/[0-9]{1,50}")


def number(text: str) -> Fraction | float:
    """A number in decimal or scientific notation, exactly: 0.1 is 1/10. 1_5 is none, though Python takes it for 15."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"must be a number, got {text!r}: write it such as 0.5 or 1e-6")
    return decimal(text.strip())


def whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        raise ValueError(f"must be a whole number, got {text!r}")
    return int(text)


def whole_or_power(text: str) -> int:
    """A whole number, also in scientific notation: 1e6 is a million."""
    value = number(text)
    if not isinstance(value, Fraction) or value.denominator != 1:
        if value != 0:
            raise ValueError(f"must be a whole number such as 1000 or 1e6, got {text!r}")
    return int(value)


def listed(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """A reading of several values with commas between them."""

    def read_all(text: str) -> tuple[Any, ...]:
        return tuple(read(part.strip()) for part in text.split(","))

    return read_all


def fraction(text: str) -> Fraction:
    """A number as it is written: 0.6 is 3/5, not the float beside it."""
    text = text.strip()
    try:
        if _RATIO.fullmatch(text):
            return Fraction(text)
        if _NUMBER.fullmatch(text):
            return Fraction(decimal(text))
    except (ZeroDivisionError, OverflowError, ValueError):
        pass
    raise ValueError(f"must be a number such as 0.6 or 3/5, got {text[:100]!r}")


def printable_text(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("must be a printable text that is not empty")
    return text


def one_of(*names: str) -> Callable[[str], str]:
    """A reading that lets certain words through."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"must be one of {', '.join(names)}; got {text!r}")
        return text

    return read


def name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError("must be NAME=VALUE, such as security.protocol=SASL_SSL")
    return name, value


BY_KIND: Mapping[str, Callable[[str], object]] = {
    "number": number, "fraction": fraction, "whole": whole, "text": str, "object": str,
}  # fmt: skip
"""How a mechanism's parameter of each kind is read."""
