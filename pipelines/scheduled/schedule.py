"""The schedule of a report: its periods, declared in its file and never inferred from the data."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import cached_property
from zoneinfo import ZoneInfo

from private_topk.transforms.windows import Period
from private_topk.transforms.windows.calendar import UNITS, Steps, Unit, came_before

_DAY = timedelta(days=1)
NEXT = "decide on the next horizon (docs/operations.md), or stop these calls"


@dataclass(frozen=True)
class Schedule:
    """A schedule of consecutive periods.

    Args:
        first: start of the first period.
        every: a length of time, or a unit of the calendar. These and whole days are those of the time zone, where a day
            may have 23 hours, and a day that the zone skipped is no period; other lengths are exact.
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

    def series(self) -> Period:
        """All periods of the horizon as windows to date. Raises InvalidArgument."""
        return Period.of(
            self._start(0), self._start(self.horizon or 1), self.every, to_date=True, time_zone=self.zone.key
        )

    def number(self, end: datetime) -> int:
        """The number of the period that ends at a moment.

        Raises:
            ValueError: none does, with the nearest that do.
        """
        after = self.ended(end)
        if after == 0:
            told = f"the first period ends on {self.words(self._start(1))}"
            raise ValueError(f"{told}; for one of an earlier horizon call the file as it was then")
        last = self._start(after)
        if last == end:
            return after - 1
        if self.horizon == after:
            raise ValueError(
                f"the last of the {self.horizon} periods of its horizon ends on {self.words(last)}: {NEXT}"
            )
        raise ValueError(f"periods end on {self.words(last)} and on {self.words(self._start(after + 1))}")

    def starting(self, start: datetime) -> int:
        """The number of the period that starts at a moment.

        Raises:
            ValueError: none does, with a near one that does.
        """
        number = self._started(start, None if self.horizon is None else self.horizon - 1)
        if self._start(number) != start:
            raise ValueError(f"one starts on {self.words(self._start(number))}")
        return number

    def ended(self, until: datetime, *, beyond: bool = False) -> int:
        """How many periods have ended at a moment: of the horizon, or also `beyond` it."""
        return self._started(until, None if beyond else self.horizon)

    def over(self, until: datetime) -> str:
        """That a period after the horizon has ended at a moment, and what to do; empty if none has."""
        if self.horizon is None or self.ended(until, beyond=True) <= self.horizon:
            return ""
        end = self.words(self._start(self.horizon))
        return f"the last of the {self.horizon} periods of its horizon ended on {end}: {NEXT}"

    def words(self, moment: datetime) -> str:
        """A moment as it is written in this schedule's time zone, unique among the starts of periods.

        When the clock goes back, periods may start at two moments of the same local time. The later one is written with
        its offset, as in 2026-10-25T020000+0100; all others are 2026-10-25T020000 and 2026-10-25 for midnight.
        """
        local = moment.astimezone(self.zone)
        twin = came_before(moment, self.zone)
        if twin is not None and twin >= self._start(0) and self._start(self._started(twin, None)) == twin:
            return f"{local:%Y-%m-%dT%H%M%S%z}"
        return f"{local:%Y-%m-%d}" if local.time() == time() else f"{local:%Y-%m-%dT%H%M%S}"

    def _started(self, until: datetime, horizon: int | None) -> int:
        """The largest number, up to a horizon, whose period starts at a moment or before; 0 if none does."""

        def is_over(number: int) -> bool:
            try:
                return (horizon is None or number <= horizon) and self._start(number) <= until
            except (OverflowError, ValueError):  # past the year 9999
                return False

        return max(bisect_left(range(1 << 40), True, key=lambda number: not is_over(number)) - 1, 0)

    @cached_property
    def _steps(self) -> Steps | None:
        """The calendar's steps, or None where the length is exact."""
        if isinstance(self.every, str):
            unit = UNITS[self.every]
        elif self.every % _DAY:
            return None
        else:
            unit = Unit(days=self.every // _DAY)
        return Steps(self.first.astimezone(self.zone).replace(tzinfo=None, fold=0), self.zone, *unit)

    def _start(self, number: int) -> datetime:
        if self._steps is not None:
            return self._steps.moment(number)
        assert isinstance(self.every, timedelta)
        return (self.first + number * self.every).astimezone(UTC)


def in_zone(value: datetime, zone: tzinfo) -> datetime:
    """The moment in UTC, since in Python a local time that comes twice, or never, equals no moment of another zone."""
    moment = value if value.tzinfo else value.replace(tzinfo=zone)
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # in the year 1 or 9999, where no period starts or ends
        return moment
