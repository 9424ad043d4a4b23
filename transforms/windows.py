"""Which windows a report publishes. They are declared, never inferred from the data.

A window that appears because somebody was active in it tells that somebody was. So every window of the declared period
is published, empty or not, and rows outside the period are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property

import numpy as np

from private_topk.transforms.calendar import CalendarWindows
from private_topk.transforms.columnar import Codes

__all__ = ["MICROSECOND", "CalendarWindows", "Period", "SlidingWindows", "WindowBounds"]

MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MOST = 100_000


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
class SlidingWindows:
    """Windows of `size`, one every `every`, which overlap: a row belongs to up to ceil(size / every) of them."""

    size: timedelta
    every: timedelta

    def __post_init__(self) -> None:
        if not timedelta(0) < self.every <= self.size:
            raise ValueError(f"windows must start every so often, at most their own length {self.size} apart, "
                             f"got {self.every}")  # fmt: skip


@dataclass(frozen=True)
class Period:
    """The declared period [start, end) and its windows.

    Args:
        cut: a length: windows of that length from the start on, the last one ends with the period. `SlidingWindows`:
            all those that lie wholly in the period. `CalendarWindows`: the period must be made of whole ones. None:
            the whole period is one window.
        slack: how long a window stays open after its end, by the clock of the source, for rows that come out of
            order. It moves the time of publication only: labels and rankings are the same.
    """

    start: datetime
    end: datetime
    cut: timedelta | SlidingWindows | CalendarWindows | None = None
    slack: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            if getattr(self, name).tzinfo is None:
                raise ValueError(f"period {name} must have a time zone: add one, such as +00:00")
            # In UTC, since a zone with summer time adds days of 23 and 25 hours.
            try:
                object.__setattr__(self, name, getattr(self, name).astimezone(timezone.utc))
            except OverflowError:
                raise ValueError(f"period {name} must lie in the years 1 to 9999 in UTC") from None
            if getattr(self, name).microsecond % 1000:
                raise ValueError(f"period {name} must be a whole millisecond, which is as fine as Beam's windows are")
        if not self.start < self.end:
            raise ValueError(f"period must end after it starts, got {self.start} to {self.end}")
        if self.slack < timedelta(0):
            raise ValueError(f"slack must not be negative, got {self.slack}")
        self._check_cut()
        if len(self) > _MOST:
            raise ValueError(f"period must have at most {_MOST:,} windows, got {len(self):,}: choose a longer window")

    def _check_cut(self) -> None:
        if isinstance(self.cut, CalendarWindows):
            self.cut.check(self.start, self.end)
            return
        lengths = [self.cut.size, self.cut.every] if isinstance(self.cut, SlidingWindows) else [self.cut]
        for length in [self.slack, *filter(None, lengths)]:
            if length % timedelta(milliseconds=1):
                raise ValueError("window must be whole milliseconds, which is as fine as Beam's windows are, got "
                                 f"{length}")  # fmt: skip
        if isinstance(self.cut, timedelta) and self.cut <= timedelta(0):
            raise ValueError(f"window must be longer than nothing, got {self.cut}")
        if isinstance(self.cut, SlidingWindows) and self.cut.size > self.end - self.start:
            raise ValueError(f"period must hold a whole window of {self.cut.size}, got {self.start} to {self.end}")

    def __len__(self) -> int:
        if isinstance(self.cut, CalendarWindows):
            return len(self.starts)
        if isinstance(self.cut, SlidingWindows):
            return (self.end - self.start - self.cut.size) // self.cut.every + 1
        return -((self.start - self.end) // self.step)

    @property
    def overlaps(self) -> bool:
        """Whether a moment may lie in several windows."""
        return isinstance(self.cut, SlidingWindows) and self.cut.every < self.cut.size

    @property
    def step(self) -> timedelta:
        """From the start of a window to that of the next. Raises ValueError for calendar windows, which vary."""
        if isinstance(self.cut, CalendarWindows):
            raise ValueError("calendar windows have no fixed length")
        whole = self.end - self.start
        return min((self.cut.every if isinstance(self.cut, SlidingWindows) else self.cut) or whole, whole)

    @cached_property
    def starts(self) -> Codes:
        """The start of every window in order, microseconds since 1970 UTC, (len,)."""
        if isinstance(self.cut, CalendarWindows):
            edges = [microseconds(edge) for edge in self.cut.edges(self.start, self.end)]
            return np.array(edges[:-1], np.int64)
        return microseconds(self.start) + np.arange(len(self), dtype=np.int64) * (self.step // MICROSECOND)

    @cached_property
    def ends(self) -> Codes:
        """The end of every window, (len,); increasing, so that a window is known by its end."""
        end = microseconds(self.end)
        if isinstance(self.cut, CalendarWindows):
            return np.append(self.starts[1:], end)
        size = self.cut.size if isinstance(self.cut, SlidingWindows) else self.step
        return np.minimum(self.starts + size // MICROSECOND, end)

    @cached_property
    def closing(self) -> Codes:
        """When every window closes, (len,): its end and the slack."""
        return self.ends + self.slack // MICROSECOND

    def windows(self) -> list[WindowBounds]:
        """Every window of the period, in order."""
        return [self.window(number) for number in range(len(self))]

    def window(self, number: int) -> WindowBounds:
        return WindowBounds(from_microseconds(int(self.starts[number])), from_microseconds(int(self.ends[number])))

    def spans(self, times: Codes) -> tuple[Codes, Codes]:
        """The first window of every event time (microseconds since 1970 UTC) and the one after its last, shape (n,).

        They are equal where a time belongs to no window.
        """
        first = np.searchsorted(self.ends, times, side="right")
        return first, np.maximum(np.searchsorted(self.starts, times, side="right"), first)

    def number(self, times: Codes) -> Codes:
        """The number of the first window of every event time, -1 for none; there is one at most unless they slide."""
        first, after = self.spans(times)
        return np.where(after > first, first, -1)


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 UTC, exactly."""
    return (moment - _EPOCH) // MICROSECOND


def from_microseconds(value: int) -> datetime:
    return _EPOCH + value * MICROSECOND


def _stamp(moment: datetime) -> str:
    text = moment.astimezone(timezone.utc)
    return text.strftime("%Y%m%dT%H%M%SZ") if text.microsecond == 0 else text.strftime("%Y%m%dT%H%M%S.%fZ")
