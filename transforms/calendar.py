"""Days, weeks and months as a calendar on the wall has them, in a time zone with its summer time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

__all__ = ["UNITS", "CalendarWindows"]

UNITS = ("day", "week", "month")


@dataclass(frozen=True)
class CalendarWindows:
    """Every day, week (from Monday on) or month of a time zone. A day has 23 or 25 hours where the clock is changed.

    Args:
        zone: a name of the IANA time zone database, such as Europe/Berlin.
    """

    unit: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"calendar window must be one of {', '.join(UNITS)}, got {self.unit}")
        time_zone(self.zone)

    def edges(self, start: datetime, end: datetime) -> list[datetime]:
        """The starts of all windows from the one that `start` lies in to the first at or after `end`, in UTC."""
        local = start.astimezone(time_zone(self.zone))
        at = datetime(local.year, local.month, local.day)
        if self.unit == "week":
            at -= timedelta(days=at.weekday())
        elif self.unit == "month":
            at = at.replace(day=1)
        found = [self._instant(at)]
        while found[-1] < end:
            at = self._next(at)
            found.append(self._instant(at))
        return found

    def check(self, start: datetime, end: datetime) -> None:
        """Raise ValueError unless the period is made of whole windows."""
        edges = self.edges(start, end)
        if edges[0] != start or edges[-1] != end:
            first, last = (edge.astimezone(time_zone(self.zone)).isoformat() for edge in (edges[0], edges[-1]))
            raise ValueError(f"period must be made of whole {self.unit}s of {self.zone}: the next wider one is from "
                             f"{first} to {last}")  # fmt: skip

    def _next(self, at: datetime) -> datetime:
        if self.unit == "month":
            return at.replace(year=at.year + at.month // 12, month=at.month % 12 + 1)
        return at + timedelta(days=7 if self.unit == "week" else 1)

    def _instant(self, local: datetime) -> datetime:
        # The first of two midnights, and the first moment after one that the clock skips.
        return local.replace(tzinfo=time_zone(self.zone)).astimezone(timezone.utc)


def time_zone(name: str) -> ZoneInfo:
    """The time zone of an IANA name. Raises ValueError for any other text."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # what is not found, what is a folder, what is no name
        raise ValueError(f"time zone must be a name of the IANA database such as Europe/Berlin, got {name!r}") from None
