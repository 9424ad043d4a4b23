"""Readers of options' texts: each function returns a typed value, or raises ValueError with the rule that is broken."""

from __future__ import annotations

import codecs
import csv
import re
import string
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import mechanism_by_name
from private_topk.transforms.mechanisms.choice import AUTO
from private_topk.transforms.mechanisms.parameters import decimal
from private_topk.transforms.windows.calendar import time_zone

_LONGEST_NAME = 200

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
_RATIO = re.compile(r"[+-]?[0-9]{1,50}/[0-9]{1,50}")


def number(text: str) -> Fraction | float:
    """A number in decimal or scientific notation, exactly: 0.1 is 1/10. 1_5 is none, though Python takes it for 15."""
    if not _NUMBER.fullmatch(text.strip()):
        how = "one number, decimals with a point: 100.00" if "," in str(text) else "write it such as 0.5 or 1e-6"
        raise ValueError(f"must be a number, got {text!r}: {how}")
    return decimal(text.strip())


def number_or_drawn(text: str) -> Fraction | float | str:
    if text.strip() == "drawn":
        return "drawn"
    try:
        return number(text)
    except ValueError as error:
        raise ValueError(str(error).replace("must be a number", "must be 'drawn' or a number")) from None


def whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        raise ValueError(f"must be a whole number, got {text!r}")
    return int(text)


def count(text: str) -> int:
    if whole(text) < 1:
        raise ValueError(f"must be a whole number of at least 1, got {text}")
    return int(text)


def port(text: str) -> int:
    if not 0 < whole(text) < 2**16:
        raise ValueError(f"must be a port from 1 to 65535, got {text}")
    return int(text)


def whole_or_power(text: str) -> int:
    """A whole number, also in scientific notation: 1e6 is a million."""
    value = number(text)
    if not isinstance(value, Fraction) or value.denominator != 1:
        if value != 0:
            raise ValueError(f"must be a whole number such as 1000 or 1e6, got {text!r}")
    return int(value)


def listed(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """A reader of several values with commas between them."""

    def read_all(text: str) -> tuple[Any, ...]:
        return tuple(read(part.strip()) for part in text.split(","))

    return read_all


def columns(text: str) -> str | tuple[str, ...]:
    """The name of a column, or of several with commas between them; one that has a comma itself is in quotes."""
    if "," not in text:
        return text
    try:
        [names] = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        raise ValueError(f"must be names with commas between them, such as country,title; got {text!r}") from None
    return names[0] if len(names) == 1 else tuple(names)


def fraction(text: str) -> Fraction:
    """A number as it is written: 0.6 is 3/5, not the float beside it."""
    text = text.strip()
    try:
        return Fraction(text) if _RATIO.fullmatch(text) else Fraction(number(text))
    except (ZeroDivisionError, OverflowError, ValueError):
        raise ValueError(f"must be a number such as 0.6 or 3/5, got {text[:100]!r}") from None


def share(text: str) -> Fraction:
    """A part of a whole: 4% or 0.04."""
    percent = text.strip().endswith("%")
    return fraction(text.strip().removesuffix("%")) / (100 if percent else 1)


def printable_text(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("must be a printable text that is not empty")
    return text


def report_name(text: str) -> str:
    """A report's name is in release ids and often in paths."""
    if "/" in printable_text(text) or len(text) > _LONGEST_NAME:
        raise ValueError(f"must be a text of at most {_LONGEST_NAME} characters without /")
    return text


def template(text: str) -> str:
    """A text with {report}, {start} and {end}, which are filled in for every period of a report."""
    try:
        parts = [part for part in string.Formatter().parse(printable_text(text)) if part[1] is not None]
        names = {name if not (form or conversion) else "{" for _, name, form, conversion in parts}
    except ValueError as error:
        if not text.strip() or not text.isprintable():
            raise
        names = {f"{{{error}"}
    if not names <= {"report", "start", "end"}:
        raise ValueError(f"may use {{report}}, {{start}} and {{end}}, and nothing else in braces; got {text}")
    return text


def output_template(text: str) -> str:
    """A single file needs a name of its own for every period; folders, topics and tables hold them all."""
    last = template(text).rpartition("/")[2]
    if "://" not in text and "." in last and "{start}" not in text and "{end}" not in text:
        raise ValueError(f"must contain {{start}} or {{end}}, so that periods do not overwrite each other; got {text}")
    return text


def zone(text: str) -> str:
    return _accepted(lambda: time_zone(text).key)


def mechanism(text: str) -> str:
    """The name of a mechanism, or module:Class of one's own; or auto, where one is chosen."""
    if text != AUTO:
        _accepted(lambda: mechanism_by_name(text))
    return text


def _accepted(read: Callable[[], Any]) -> Any:  # noqa: ANN401
    try:
        return read()
    except InvalidArgument as error:
        raise ValueError(str(InvalidArgument("", error.rule, error.remedy))) from None


class OneOf:
    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, text: str) -> str:
        if text not in self.words:
            raise ValueError(f"must be one of {', '.join(self.words)}; got {text!r}")
        return text


def name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError("must be NAME=VALUE")
    return name, value


def delimiter(text: str) -> str:
    """What stands between the values of a line: one character of ASCII, perhaps as \\t or \\x01."""
    if re.fullmatch(r"\\(t|x[0-9a-fA-F]{2})", text):
        text = "\t" if text == "\\t" else chr(int(text[2:], 16))
    if len(text) != 1 or not text.isascii() or text in '"\r\n\0':
        raise ValueError(
            f"must be one character of ASCII such as ';', or \\t for a tab, and no quote or line end; got {text!r}"
        )
    return text


_UNITS = {f"utf-{bits}{order}" for bits in (16, 32) for order in ("", "-le", "-be")}
_LEADS = set(
    "big5 big5hkscs cp932 cp949 cp950 euc_jis_2004 euc_jisx0213 euc_jp euc_kr gb18030 gb2312 gbk johab shift_jis "
    "shift_jis_2004 shift_jisx0213".split()
)
"""Encodings of letters of one and more bytes, of which a line feed is none but the first."""


def encoding(text: str) -> str:
    """The name that Python has for an encoding whose lines can be read each by itself."""
    try:
        name = codecs.lookup(text).name
    except (LookupError, ValueError):
        raise ValueError(f"must be an encoding that Python knows, such as utf-16 or latin-1; got {text!r}") from None
    if name in ("utf-8", "utf-8-sig"):  # a mark at the start is dropped anyway
        return "utf-8"
    if name not in _UNITS | _LEADS and not _is_a_letter_a_byte(name):
        raise ValueError(
            f"{text!r} cannot be read line by line: what a byte means depends on bytes before it, perhaps "
            "of another row; convert the files to utf-8, as iconv does"
        )
    return name


def _is_a_letter_a_byte(name: str) -> bool:
    """Whether every byte is one letter, or none, whatever stands beside it."""
    pairs = bytes(byte for first in range(256) for second in range(256) for byte in (first, second))
    try:
        if len(rb"\n".decode(name, "replace")) < 2:  # as escapes are read, with warnings of all that are none
            return False
        letters = [bytes([byte]).decode(name, "replace") for byte in range(256)]
        return pairs.decode(name, "replace") == "".join(letters[byte] for byte in pairs) and "\n" in letters
    except (LookupError, UnicodeError):  # no encoding of texts, such as base64
        return False


BY_KIND: Mapping[str, Callable[[str], object]] = {
    "number": number,
    "fraction": fraction,
    "whole": whole,
    "text": str,
    "object": str,
}
"""The reader of a mechanism's parameter, by its kind."""
