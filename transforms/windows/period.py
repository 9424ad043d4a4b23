"""The declared period of a report and its windows.

A window that appears because somebody was active in it tells that somebody was. So every window of the declared period
is published, empty or not, and rows outside the period are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import numpy as np

from private_topk.transforms.refusal import Refusal, verbatim
from private_topk.transforms.windows.calendar import CalendarWindows
from private_topk.transforms.windows.calendar import time_zone as zone_named
from private_topk.transforms.windows.cuts import Cut, Run, SlidingWindows, cut_of, whole_milliseconds
from private_topk.transforms.windows.instants import MICROSECOND, Instants, WindowBounds, from_microseconds
from private_topk.transforms.windows.texts import duration, moment, window_length

__all__ = ["Period"]

_MOST = 100_000
_EXAMPLE = "Period.of('2026-01-05', '2026-02-02', '7d')"


@dataclass(frozen=True)
class Period:
    """The declared period [start, end) and its windows.

    Args:
        cut: how it is cut: `FixedWindows`, for which a length may stand; `SlidingWindows`; `CalendarWindows`; `Whole`,
            for which None may stand.
        slack: how long a window stays open after its end, by the clock of the source, for rows that come out of
            order. It moves the time of publication only: labels and rankings are the same.
        zone: in which people are told of its times, such as Europe/Berlin.
    """

    identity_tag: ClassVar[str] = "period"

    start: datetime
    end: datetime
    cut: Cut | timedelta | None = None
    slack: timedelta = timedelta(0)
    zone: str = field(
        default="UTC", compare=False, metadata={"unasked": "how times are shown; the times themselves are in UTC"}
    )

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            if not isinstance(getattr(self, name), datetime):
                rule = f"period {name} must be a datetime, got {type(getattr(self, name)).__name__}"
                raise Refusal("", rule, f"Period.of takes texts, such as {_EXAMPLE}")
            if getattr(self, name).tzinfo is None:
                raise Refusal("", f"period {name} must have a time zone: add one, such as +00:00")
            # In UTC, since a zone with summer time adds days of 23 and 25 hours.
            try:
                object.__setattr__(self, name, getattr(self, name).astimezone(timezone.utc))
            except OverflowError:
                raise Refusal("", f"period {name} must lie in the years 1 to 9999 in UTC") from None
            if getattr(self, name).microsecond % 1000:
                raise Refusal("", f"period {name} must be a whole millisecond, which is as fine as Beam's windows are")
        if not self.start < self.end:
            raise Refusal("", f"period must end after it starts, got {self.start} to {self.end}")
        if self.slack < timedelta(0):
            raise Refusal("slack", f"must not be negative, got {self.slack}")
        whole_milliseconds(self.slack)
        object.__setattr__(self, "cut", cut_of(self.cut))
        self._cut.check(self.start, self.end)
        least = self._cut.at_least(self.start, self.end)
        if least > _MOST:
            raise Refusal("", f"period must have at most {_MOST:,} windows, got {least:,}: choose a longer window")

    @classmethod
    def of(
        cls,
        start: str | datetime,
        end: str | datetime,
        window: str | timedelta | Cut | None = None,
        *,
        every: str | timedelta | None = None,
        time_zone: str = "UTC",
        slack: str | timedelta = timedelta(0),
    ) -> Period:
        """A period as it is written, as on the command line: `Period.of("2026-01-05", "2026-02-02", "7d")`.

        Args:
            start, end: moments in ISO 8601, of the time zone where they name none.
            window: how long the windows are, such as 7d or 12h; or day, week or month, of the time zone's calendar;
                None for one window.
            every: how often a window starts, where they slide.
            time_zone: a name such as Europe/Berlin.

        Raises:
            Refusal: a text is none of these, or the period breaks a rule.
        """
        zone = zone_named(time_zone)
        cut = _cut(_read("window", window, window_length), _read("every", every, duration), time_zone)
        first, last = _read("period_from", start, moment), _read("period_to", end, moment)
        return cls(_in_zone(first, zone), _in_zone(last, zone), cut, _read("slack", slack, duration), time_zone)

    @property
    def _cut(self) -> Cut:
        return cut_of(self.cut)

    def __len__(self) -> int:
        return sum(run.number for run in self.runs)

    @property
    def step(self) -> timedelta:
        """From the start of a window to that of the next. Raises ValueError for calendar windows, which vary."""
        return self._cut.step(self.start, self.end)

    @property
    def overlaps(self) -> bool:
        """Whether a moment may lie in several windows."""
        return self.overlap > 1

    @property
    def overlap(self) -> int:
        """How many windows the rows of one window can be in: 1 unless they slide."""
        return self._cut.overlap(len(self))

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All windows, as runs of regular ones: what a ledger holds of them."""
        return tuple(self._cut.runs(self.start, self.end))

    @cached_property
    def starts(self) -> Instants:
        """The start of every window in order, microseconds since 1970 UTC, (len,)."""
        return np.concatenate([run.bounds()[0] for run in self.runs])

    @cached_property
    def ends(self) -> Instants:
        """The end of every window, (len,); increasing, so that a window is known by its end."""
        return np.concatenate([run.bounds()[1] for run in self.runs])

    @cached_property
    def closing(self) -> Instants:
        """When every window closes, (len,): its end and the slack."""
        return self.ends + self.slack // MICROSECOND

    def windows(self) -> list[WindowBounds]:
        """Every window of the period, in order."""
        return [self.window(number) for number in range(len(self))]

    def window(self, number: int) -> WindowBounds:
        return WindowBounds(from_microseconds(int(self.starts[number])), from_microseconds(int(self.ends[number])))

    def with_one_before(self, since: datetime | None = None) -> Period:
        """This period and one window before it: its windows are those of this one, each with a number more.

        Args:
            since: when that window starts, where this is one window whose length does not tell.

        Raises:
            Refusal: windows overlap, or there is none before the year 1.
        """
        try:
            start, cut = self._cut.one_before(self.start, self.end, since)
            return Period(start, self.end, cut, self.slack)
        except OverflowError:
            raise Refusal("period_from", "must have a window before it") from None

    def spans(self, times: Instants) -> tuple[Instants, Instants]:
        """The first window of every event time (microseconds since 1970 UTC) and the one after its last, shape (n,).

        They are equal where a time belongs to no window.
        """
        first = np.searchsorted(self.ends, times, side="right")
        return first, np.maximum(np.searchsorted(self.starts, times, side="right"), first)

    def number(self, times: Instants) -> Instants:
        """The number of the first window of every event time, -1 for none; there is one at most unless they slide."""
        first, after = self.spans(times)
        return np.where(after > first, first, -1)


def _read(field: str, value: Any, read: Callable[[str], Any]) -> Any:  # noqa: ANN401 - a text, or what it would mean
    try:
        return read(value) if isinstance(value, str) else value
    except ValueError as error:
        raise Refusal(field, verbatim(error)) from None


def _cut(window: timedelta | str | Cut | None, every: timedelta | None, zone: str) -> Cut | timedelta | None:
    if isinstance(window, str):
        if every is not None:
            raise Refusal("every", f"goes with a {{window}} of a length such as 7d, not with {verbatim(window)}")
        return CalendarWindows(window, zone)
    if every is None:
        return window
    if not isinstance(window, timedelta):
        raise Refusal("every", "needs {window}: how long the windows are that start every so often")
    return SlidingWindows(window, every)


def _in_zone(at: Any, zone: ZoneInfo) -> Any:  # noqa: ANN401 - what is no moment is refused later
    return at.replace(tzinfo=zone) if isinstance(at, datetime) and at.tzinfo is None else at
