"""What a text means as a length of time or a moment, at every door. Each raises ValueError with the rule it breaks."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from private_topk.transforms.windows.calendar import UNITS

__all__ = ["duration", "moment", "window_length"]

_MOMENT = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<hour>[0-9]{2})(?::(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6}))?)?)?)?"
    r" ?(?P<zone>Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_LENGTHS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LENGTH_RULE = "a number and one of s, m, h, d, w, such as 7d"


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
