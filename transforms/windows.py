"""Which windows a report publishes. They are declared, never inferred from the data.

A window that appears because somebody was active in it tells that somebody was. So every window of the declared period
is published, empty or not, and rows outside the period are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import numpy as np

from private_topk.transforms.columnar import Codes

__all__ = ["MICROSECOND", "Period", "WindowBounds"]

MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class WindowBounds:
    """A half-open window [start, end) of event time in UTC; both None for all rows whatever their time."""

    start: datetime | None = None
    end: datetime | None = None

    def label(self) -> str:
        """How the window is named in a release's seed and in file names: no spaces, brackets or colons."""
        if self.start is None or self.end is None:
            return "all"
        return f"{_stamp(self.start)}--{_stamp(self.end)}"


@dataclass(frozen=True)
class Period:
    """The declared period [start, end), cut into windows of `size` from its start; the last one ends with the period.

    Without a size the whole period is one window.
    """

    start: datetime
    end: datetime
    size: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            if getattr(self, name).tzinfo is None:
                raise ValueError(f"period {name} must have a time zone: add one, such as +00:00")
            # In UTC, since a zone with summer time adds days of 23 and 25 hours.
            object.__setattr__(self, name, getattr(self, name).astimezone(timezone.utc))
            if getattr(self, name).microsecond % 1000:
                raise ValueError(f"period {name} must be a whole millisecond, which is as fine as Beam's windows are")
        if not self.start < self.end:
            raise ValueError(f"period must end after it starts, got {self.start} to {self.end}")
        if self.size is not None and self.size <= timedelta(0):
            raise ValueError(f"window must be longer than nothing, got {self.size}")
        if self.size is not None and self.size % timedelta(milliseconds=1):
            raise ValueError(
                f"window must be whole milliseconds, which is as fine as Beam's windows are, got {self.size}"
            )
        if len(self) > 100_000:
            raise ValueError(f"period must have at most 100,000 windows, got {len(self):,}: choose a longer window")

    def __len__(self) -> int:
        return -((self.start - self.end) // self.step)

    @property
    def step(self) -> timedelta:
        whole = self.end - self.start
        return min(self.size or whole, whole)

    def windows(self) -> list[WindowBounds]:
        """Every window of the period, in order."""
        return [self.window(number) for number in range(len(self))]

    def window(self, number: int) -> WindowBounds:
        """The bounds of a window by its number."""
        start = self.start + number * self.step
        return WindowBounds(start, start + min(self.step, self.end - start))

    def start_of(self, number: int) -> int:
        """Where a window starts, in microseconds since 1970 UTC."""
        return microseconds(self.start + number * self.step)

    def number(self, times: Codes) -> Codes:
        """The number of the window of every event time (microseconds since 1970 UTC), -1 outside the period."""
        start, end, step = microseconds(self.start), microseconds(self.end), self.step // MICROSECOND
        inside = (times >= start) & (times < end)
        return np.where(inside, (times - start) // step, -1)


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 UTC, exactly."""
    return (moment - _EPOCH) // MICROSECOND


def from_microseconds(value: int) -> datetime:
    return _EPOCH + value * MICROSECOND


def _stamp(moment: datetime) -> str:
    text = moment.astimezone(timezone.utc)
    return text.strftime("%Y%m%dT%H%M%SZ") if text.microsecond == 0 else text.strftime("%Y%m%dT%H%M%S.%fZ")
