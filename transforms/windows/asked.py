"""The declared period and its windows, from what a door was asked for, and what a text means there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from private_topk.transforms.refusal import Refusal, verbatim
from private_topk.transforms.windows.calendar import UNITS, CalendarWindows, time_zone
from private_topk.transforms.windows.cuts import Cut, SlidingWindows
from private_topk.transforms.windows.period import Period

__all__ = ["duration", "moment", "period_of", "window_length"]

_MOMENT = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<hour>[0-9]{2})(?::(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6}))?)?)?)?"
    r" ?(?P<zone>Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_LENGTHS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LENGTH_RULE = "a number and one of s, m, h, d, w, such as 7d"


def duration(text: str) -> timedelta:
    """A length of time such as 7d, 12h or 90m. Raises ValueError, as the next two do."""
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
    """A point in time in ISO 8601, without a time zone where none is given.

    The same texts on every Python: `datetime.fromisoformat` of 3.11 takes week dates, and that of 3.10 knows few.
    """
    found = _MOMENT.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError
        hour, minute, second = (found[name] or "00" for name in ("hour", "minute", "second"))
        zone = (found["zone"] or "").replace(":", "")
        zone = "+00:00" if zone == "Z" else zone and f"{zone[:3]}:{zone[3:] or '00'}"
        fraction = (found["fraction"] or "").ljust(6, "0")
        return datetime.fromisoformat(f"{found['day']}T{hour}:{minute}:{second}.{fraction}{zone}")
    except ValueError:
        rule = "must be a date or time such as 2026-01-05"
        raise ValueError(f"{rule}, got {text!r}") from None


def period_of(asked: Mapping[str, Any]) -> Period | None:
    """The declared period, or None where all rows are ranked together.

    Args:
        asked: the fields period_from, period_to, window, every, time_zone and slack, read; those that were given.

    Raises:
        Refusal: half of a period was given, or it breaks a rule.
    """
    start, end, zone = asked.get("period_from"), asked.get("period_to"), asked.get("time_zone", "UTC")
    if start is None and end is None:
        if "window" in asked:
            raise Refusal("window", "needs {period_from} and {period_to}", "windows that are inferred from the data "
                          "would tell of a user who is alone in one, so the period must be public")  # fmt: skip
        return None
    if start is None or end is None:
        raise Refusal("period_from", "and {period_to} go together", "give both, so that the period is public")
    return Period(_in_zone(start, zone), _in_zone(end, zone), _cut(asked, zone), asked.get("slack", timedelta(0)))


def _cut(asked: Mapping[str, Any], zone: str) -> Cut | timedelta | None:
    window, every = asked.get("window"), asked.get("every")
    if isinstance(window, str):
        if every is not None:
            raise Refusal("every", f"goes with a {{window}} of a length such as 7d, not with {verbatim(window)}")
        return CalendarWindows(window, zone)
    if every is None:
        return window
    if window is None:
        raise Refusal("every", "needs {window}: how long the windows are that start every so often")
    return SlidingWindows(window, every)


def _in_zone(moment: datetime, zone: str) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=time_zone(zone))
