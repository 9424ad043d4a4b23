"""Days, weeks, months, quarters and years of a calendar, in a time zone with daylight saving time.

A local time is not always one moment. When the clock goes back, one local time comes twice; when it goes forward, some
never come; and now and then a zone skips a whole day, as Samoa did with 30 December 2011. The rules: a local time that
comes twice means its first moment, one that never comes means as long after the clock's jump as it lies after the
local time of the jump, and a skipped day is no window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import count, groupby
from typing import ClassVar, NamedTuple
from zoneinfo import ZoneInfo

from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.windows.windowing import Run, Windowing, microseconds

_DAY = timedelta(days=1)


class Unit(NamedTuple):
    """So many days or months of a calendar."""

    days: int = 0
    months: int = 0

    @property
    def longest(self) -> timedelta:
        """More than any of it lasts, whatever the clock does."""
        return (self.days + 31 * self.months + 1) * _DAY


UNITS = {
    "day": Unit(days=1),
    "week": Unit(days=7),
    "month": Unit(months=1),
    "quarter": Unit(months=3),
    "year": Unit(months=12),
}


@dataclass(frozen=True)
class Steps:
    """Moments that follow each other by so many days or months of local time.

    Args:
        first: a local time; the step of number 0.
        days, months: one of them is above 0. With months the day of the month must be one that each of them has.
        zone: the zone of the local times.
    """

    identity_tag: ClassVar[str] = "steps"

    first: datetime
    zone: ZoneInfo
    days: int = 0
    months: int = 0

    def moment(self, number: int) -> datetime:
        """The moment of a step, in UTC; moments of different steps differ."""
        if self.months:
            months = self.first.year * 12 + self.first.month - 1 + number * self.months
            return first_moment(self.first.replace(year=months // 12, month=months % 12 + 1), self.zone)
        at = self.first + number * self.days * _DAY
        if self.days == 1:  # longer steps get shorter by a skipped day, and do not vanish
            for skipped in skipped_days(self.zone):
                at += _DAY * (self.first.date() <= skipped <= at.date())
        return first_moment(at, self.zone)


@dataclass(frozen=True)
class CalendarWindows(Windowing):
    """Every day, week (from Monday on), month, quarter (from January on) or year of a time zone.

    The period must be made of whole ones.

    A day has 23 or 25 hours where the clock is changed.

    Args:
        zone: a name of the IANA time zone database, such as Europe/Berlin.
    """

    identity_tag: ClassVar[str] = "calendar-windows"
    follow: ClassVar[bool] = True

    unit: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise InvalidArgument(
                "window", f"of a calendar must be one of {', '.join(UNITS)}, got {verbatim(self.unit)}"
            )
        time_zone(self.zone)

    def edges(self, start: datetime, end: datetime) -> list[datetime]:
        """The starts of all windows from the one that `start` lies in to the first at or after `end`, in UTC.

        Raises InvalidArgument where one lies outside of the years 1 to 9999.
        """
        edges: list[datetime] = []
        try:
            for moment in self._from(start.astimezone(time_zone(self.zone)).replace(tzinfo=None)):
                edges.append(moment)
                if moment >= end:
                    break
        except (OverflowError, ValueError):
            raise InvalidArgument("", f"period must be made of whole {self.unit}s within the years 1 to 9999") from None
        return edges

    def check(self, start: datetime, end: datetime) -> None:
        edges = self.edges(start, end)
        if edges[0] != start or edges[-1] != end:
            first, last = (edge.astimezone(time_zone(self.zone)).isoformat() for edge in (edges[0], edges[-1]))
            raise InvalidArgument(
                "",
                f"period must be made of whole {self.unit}s of {self.zone}: the next wider one is from "
                f"{first} to {last}",
            )

    def at_least(self, start: datetime, end: datetime) -> int:
        return -((start - end) // UNITS[self.unit].longest)

    def runs(self, start: datetime, end: datetime) -> list[Run]:
        """Neighbours of equal length together: a year of days in Berlin is five runs, of 24, 23, 24, 25 and 24 hours.

        So a ledger holds the moments themselves, and a later edition of the time zone database changes no old charge.
        """
        edges = [microseconds(edge) for edge in self.edges(start, end)]
        runs, at = [], edges[0]
        for size, group in groupby(after - before for before, after in zip(edges, edges[1:], strict=False)):
            number = len(list(group))
            runs.append(Run(at, at + number * size, size, size, number))
            at += number * size
        return runs

    def _from(self, local: datetime) -> Iterator[datetime]:
        at = datetime(local.year, local.month, local.day)
        days, months = UNITS[self.unit]
        if months:
            at = at.replace(month=(at.month - 1) // months * months + 1, day=1)
        elif self.unit == "week":
            at -= at.weekday() * _DAY
        return map(Steps(at, time_zone(self.zone), days, months).moment, count())


def first_moment(reading: datetime, zone: ZoneInfo) -> datetime:
    """The first moment, in UTC, at which a clock in a zone shows a local time.

    Berlin's clock shows 02:30 twice on 25 October 2026: the first time counts. On 29 March it goes from 02:00 to 03:00:
    02:30, which it never shows, is the moment half an hour later, shown as 03:30. A midnight that is jumped over is the
    moment of the jump, since no zone has jumped from before midnight to after it since 1970.
    """
    return reading.replace(tzinfo=zone, fold=0).astimezone(UTC)


def came_before(moment: datetime, zone: ZoneInfo) -> datetime | None:
    """The earlier moment at which a clock in a zone showed the same local time as at this one, or None."""
    shown = moment.astimezone(zone)
    return first_moment(shown.replace(tzinfo=None), zone) if shown.fold else None


@lru_cache(maxsize=64)
def skipped_days(zone: ZoneInfo) -> tuple[date, ...]:
    """The days that a zone left out, moving across the date line. No zone is known to plan one."""
    skipped = []
    for year in range(1840, 2100):
        new_year, next_one = (datetime(at, 1, 1, tzinfo=zone).utcoffset() for at in (year, year + 1))
        if (next_one or _DAY) - (new_year or _DAY) > _DAY / 2:
            days = [datetime(year, 1, 1) + number * _DAY for number in range(366)]
            skipped += [day.date() for day in days if first_moment(day, zone) == first_moment(day + _DAY, zone)]
    return tuple(skipped)


def time_zone(name: str) -> ZoneInfo:
    """The time zone of an IANA name. Raises ValueError for any other text."""
    try:
        if name == "localtime":  # another zone on every machine
            raise ValueError
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # unknown names, folders, and texts that are no names
        raise InvalidArgument(
            "time_zone", verbatim(f"must be a name of the IANA database such as Europe/Berlin, got {name!r}")
        ) from None
