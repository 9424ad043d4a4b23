"""What a row means, written down a second time: plain Python, a value at a time, no library but the standard one."""

from __future__ import annotations

import csv
import io
import math
import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

FACTORS = {"s": 10**6, "ms": 10**3, "us": 1}
FARTHEST = 36_525_000 * 86_400 * 10**6  # 100,000 Julian years in microseconds
NULL, BAD = "null", "unreadable"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
EPOCH = date(1970, 1, 1).toordinal()
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?"
    r"( UTC| ?[Zz]| ?[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)


def micros_of_number(value: int | float, unit: str) -> int | None:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if abs(value) >= FARTHEST // FACTORS[unit]:
        return None
    return value * FACTORS[unit] if isinstance(value, int) else round(value * FACTORS[unit])


def micros_of_text(text: str, unit: str) -> int | None:
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return micros_of_number(int(text), unit)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return micros_of_number(float(text), unit)
    found = _TIME.fullmatch(text)
    if not found:
        return None
    year, month, day = (int(part) for part in found.groups()[:3])
    hour, minute, second = (int(part or 0) for part in found.groups()[3:6])
    shift = (found[8] or "Z").strip().replace("UTC", "Z")
    try:
        # Python's calendar has no year 0: 400 years later, the days are the same.
        later = year < 1
        days = date(year + 400 * later, month, day).toordinal() - 146_097 * later - EPOCH
        time(hour, minute, second)
        if shift not in "Zz":
            time(int(shift[1:3]), int(shift[3:].lstrip(":") or 0))
    except ValueError:
        return None
    offset = 0
    if shift not in "Zz":
        offset = (int(shift[1:3]) * 60 + int(shift[3:].lstrip(":") or 0)) * (-1 if shift[0] == "-" else 1)
    seconds = days * 86_400 + hour * 3600 + (minute - offset) * 60 + second
    return seconds * 10**6 + int(((found[7] or "") + "000000")[:6])


def csv_row(line: bytes, width: int, places: list[int], unit: str = "s", delimiter: str = ",") -> tuple | str | None:
    """(user, item[, time]) of a line, the reason why there is none, or None for a blank line: a state machine over its
    letters.
    """
    line = re.sub(rb"\r?\n?\Z", b"", line)
    if not line:
        return None
    values = _split(line, delimiter.encode())
    if values is None or len(values) != width:
        return BAD
    found: list[Any] = []
    for place in places:
        try:
            found.append(values[place].decode() or None)
        except UnicodeDecodeError:
            return BAD
    return _row(found, unit)


def _split(line: bytes, delimiter: bytes) -> list[bytes] | None:
    values, at = [], 0
    while True:
        value = b""
        if line[at : at + 1] == b'"':
            at += 1
            while True:
                if at >= len(line) or line[at] == 0:
                    return None
                if line[at : at + 2] == b'""':
                    value, at = value + b'"', at + 2
                elif line[at : at + 1] == b'"':
                    at += 1
                    break
                else:
                    value, at = value + line[at : at + 1], at + 1
        else:
            while at < len(line) and line[at : at + 1] != delimiter:
                if line[at] in (0, 13):
                    return None
                value, at = value + line[at : at + 1], at + 1
        values.append(value)
        if at == len(line):
            return values
        if line[at : at + 1] != delimiter:
            return None
        at += 1


def label_of(value: Any) -> str | None:  # noqa: ANN401 - whatever a format holds
    """A label, None for null. Raises ValueError for what is none."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and "\0" not in value and value.encode() is not None:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError


def micros_of(value: Any, unit: str) -> int | None:  # noqa: ANN401
    """A time, None for null. Raises ValueError for what is none."""
    if value is None:
        return None
    if isinstance(value, str) and value.encode() is not None:
        found = micros_of_text(value, unit)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found = micros_of_number(value, unit)
    elif isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        found = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    elif isinstance(value, date):
        found = (value.toordinal() - EPOCH) * 86_400 * 10**6
    else:
        found = None
    if found is None:
        raise ValueError
    return found


def amount_of(value: Any) -> float | None:  # noqa: ANN401 - whatever a format holds
    """The amount that a value means, None where it means none."""
    if isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value) else None
    number = float(value)
    return None if math.isnan(number) else number


def _row(values: list[Any], unit: str) -> tuple | str:
    try:
        labels = [label_of(value) for value in values[:2]]
        times = [micros_of(value, unit) for value in values[2:]]
    except ValueError:
        return BAD
    return NULL if None in (*labels, *times) else (*labels, *times)


def row_of(values: list[Any], unit: str = "s") -> tuple | str:
    """The row of typed values."""
    return _row(values, unit)


def written(rows: list[tuple[str, ...]]) -> bytes:
    """Rows as the standard library writes them, all in quotes."""
    sink = io.StringIO()
    csv.writer(sink, quoting=csv.QUOTE_ALL).writerows(rows)
    return sink.getvalue().encode()
