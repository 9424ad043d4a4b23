"""Which periods a scheduled report has: declared in its file, never inferred from the data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

from private_topk.transforms.windows import Period

__all__ = ["CALENDAR", "Schedule"]

CALENDAR = ("day", "week", "month")
"""Lengths that have a name."""

_DAY = timedelta(days=1)
_NAMED: dict[str, timedelta | str] = {"day": _DAY, "week": 7 * _DAY}


@dataclass(frozen=True)
class Schedule:
    """Periods one after the other.

    Args:
        first: start of the first period.
        every: a length of time, or one of `CALENDAR`. Months and whole days are those of the time zone's calendar,
            where a day may have 23 hours; other lengths are exact.
        zone: the time zone, also of dates that name none.
        horizon: how many periods there are in all, or None for no end.
    """

    first: datetime
    every: timedelta | str
    zone: ZoneInfo
    horizon: int | None = None

    def period(self, number: int) -> Period:
        """The period of a number, from 0."""
        return Period(self._start(number), self._start(number + 1))

    def number(self, end: datetime) -> int:
        """The number of the period that ends at a moment.

        Raises:
            ValueError: none does, with the nearest that do.
        """
        after = self.ended(end)
        if after == 0:
            raise ValueError(f"the first period ends on {self.words(self._start(1))}")
        last = self._start(after)
        if last == end:
            return after - 1
        if self.horizon == after:
            raise ValueError(f"the last of the {self.horizon} periods of its horizon ends on {self.words(last)}")
        raise ValueError(f"periods end on {self.words(last)} and on {self.words(self._start(after + 1))}")

    def ended(self, until: datetime) -> int:
        """How many periods have ended at a moment."""

        def is_over(number: int) -> bool:
            return (self.horizon is None or number <= self.horizon) and self._start(number) <= until

        high = 1
        while is_over(high):
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_over(middle) else (low, middle)
        return low

    def words(self, moment: datetime) -> str:
        """A moment as it is written in this schedule's time zone."""
        local = moment.astimezone(self.zone)
        return f"{local:%Y-%m-%d}" if local.time() == time() else f"{local:%Y-%m-%dT%H%M%S}"

    def _start(self, number: int) -> datetime:
        every = _NAMED.get(self.every, self.every) if isinstance(self.every, str) else self.every
        if isinstance(every, timedelta) and every % _DAY:
            return (self.first + number * every).astimezone(timezone.utc)
        local = self.first.astimezone(self.zone).replace(tzinfo=None)
        if isinstance(every, timedelta):
            local += number * every
        else:
            months = local.year * 12 + local.month - 1 + number
            local = local.replace(year=months // 12, month=months % 12 + 1)
        return local.replace(tzinfo=self.zone).astimezone(timezone.utc)
