"""The declared period of a report and its windows.

A window that appears because somebody was active in it tells that somebody was. So every window of the declared period
is published, empty or not, and rows outside the period are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import numpy as np

from private_topk.transforms.errors import InvalidArgument, by_signature, did_you_mean, verbatim
from private_topk.transforms.windows.calendar import UNITS, CalendarWindows
from private_topk.transforms.windows.calendar import time_zone as zone_named
from private_topk.transforms.windows.windowing import (
    MICROSECOND,
    Instants,
    Run,
    SlidingWindows,
    ToDate,
    Whole,
    WindowBounds,
    Windowing,
    from_microseconds,
    whole_milliseconds,
    windowing_of,
)

_MAX = 100_000
_EXAMPLE = "Period.of('2026-01-05', '2026-02-02', '7d')"


@dataclass(frozen=True)
class Period:
    """The declared period [start, end) and its windows.

    Args:
        windowing: `FixedWindows`, for which a length may stand; `SlidingWindows`; `CalendarWindows`; `Whole`, for which
            None may stand; `ToDate`.
        allowed_lateness: how long a window stays open after its end, by the clock of the source, for rows that come out
            of order. It moves the time of publication only: labels and rankings are the same.
        zone: in which people are told of its times, such as Europe/Berlin.
    """

    identity_tag: ClassVar[str] = "period"

    start: datetime
    end: datetime
    windowing: Windowing | timedelta | None = None
    allowed_lateness: timedelta = timedelta(0)
    zone: str = field(
        default="UTC",
        compare=False,
        metadata={"not_in_fingerprint": "how times are shown; the times themselves are in UTC"},
    )

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            if not isinstance(getattr(self, name), datetime):
                rule = f"period {name} must be a datetime, got {type(getattr(self, name)).__name__}"
                raise InvalidArgument("", rule, f"Period.of takes texts, such as {_EXAMPLE}")
            if getattr(self, name).tzinfo is None:
                raise InvalidArgument("", f"period {name} must have a time zone: add one, such as +00:00")
            # In UTC, since a zone with summer time adds days of 23 and 25 hours.
            try:
                object.__setattr__(self, name, getattr(self, name).astimezone(UTC))
            except OverflowError:
                raise InvalidArgument("", f"period {name} must lie in the years 1 to 9999 in UTC") from None
            if getattr(self, name).microsecond % 1000:
                raise InvalidArgument(
                    "", f"period {name} must be a whole millisecond, which is as fine as Beam's windows are"
                )
        if not self.start < self.end:
            raise InvalidArgument("", f"period must end after it starts, got {self.start} to {self.end}")
        if self.allowed_lateness < timedelta(0):
            raise InvalidArgument("allowed_lateness", f"must not be negative, got {self.allowed_lateness}")
        whole_milliseconds(self.allowed_lateness)
        object.__setattr__(self, "windowing", windowing_of(self.windowing))
        self._windowing.check(self.start, self.end)
        least = self._windowing.at_least(self.start, self.end)
        if least > _MAX:
            raise InvalidArgument(
                "", f"period must have at most {_MAX:,} windows, got {least:,}: choose a longer window"
            )

    @classmethod
    @by_signature
    def of(
        cls,
        start: str | date,
        end: str | date,
        window: str | timedelta | Windowing | None = None,
        *,
        slide: str | timedelta | None = None,
        to_date: bool = False,
        time_zone: str = "UTC",
        allowed_lateness: str | timedelta = timedelta(0),
    ) -> Period:
        """A period as it is written, as on the command line: `Period.of("2026-01-05", "2026-02-02", "7d")`.

        Args:
            start, end: moments, also in ISO 8601, or dates; of the time zone where they name none.
            window: how long the windows are, such as 7d or 12h; or day, week, month, quarter or year, of the time
                zone's calendar;
                None for one window.
            slide: how often a window starts, where they slide.
            to_date: every window begins with the period: rankings of the period so far, one at the end of each window.
            time_zone: a name such as Europe/Berlin.
            allowed_lateness: how long a window of a stream waits for late rows before it is published, such as 20s.

        Raises:
            InvalidArgument: a text is none of these, or the period breaks a rule: among them that windows of a length
                fill it, so that none is shorter. A `Period` that is made otherwise may end with a shorter one.
        """
        zone = zone_named(time_zone)
        windowing = _windowing(_read("window", window, window_length), _read("slide", slide, duration), time_zone)
        if to_date:
            windowing = ToDate(windowing_of(windowing))
        first, last = _read("start", start, moment), _read("end", end, moment)
        lateness = _read("allowed_lateness", allowed_lateness, delay)
        period = cls(_in_zone(first, zone), _in_zone(last, zone), windowing, lateness, time_zone)
        period._windowing.check_filled(period.start, period.end)
        return period

    @property
    def _windowing(self) -> Windowing:
        return windowing_of(self.windowing)

    def __len__(self) -> int:
        return sum(run.number for run in self.runs)

    @property
    def overlap(self) -> int:
        """How many windows the rows of one window can be in: 1 unless they slide, or are to date."""
        return self._windowing.overlap(len(self))

    @property
    def to_date(self) -> bool:
        """Whether every window begins with the period."""
        return self._windowing.to_date

    @property
    def repeats(self) -> bool:
        """Whether a row is counted anew in each of several windows: to date it is not, but stays counted."""
        return self.overlap > 1 and not self.to_date

    @property
    def released(self) -> Period:
        """The windows that cost a draw each: of windows to date, which are one series, the whole period."""
        return replace(self, windowing=Whole()) if self.to_date else self

    def alone(self, number: int) -> Period:
        """One of its windows, as the only window of a period."""
        window = self.window(number)
        assert window.start is not None and window.end is not None
        return Period(window.start, window.end, Whole(), self.allowed_lateness, self.zone)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All windows, as runs of regular ones: what a ledger holds of them."""
        return tuple(self._windowing.runs(self.start, self.end))

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
        """When every window closes, (len,): its end and the allowed lateness."""
        return self.ends + self.allowed_lateness // MICROSECOND

    def windows(self) -> list[WindowBounds]:
        return [self.window(number) for number in range(len(self))]

    def window(self, number: int) -> WindowBounds:
        return WindowBounds(from_microseconds(int(self.starts[number])), from_microseconds(int(self.ends[number])))

    def spans(self, times: Instants) -> tuple[Instants, Instants]:
        """The first window of every event time (microseconds since 1970 UTC), and the one after its last, shape (n,);
        equal where a time belongs to no window.
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
        raise InvalidArgument(field, verbatim(error)) from None


def _windowing(
    window: timedelta | str | Windowing | None, slide: timedelta | None, zone: str
) -> Windowing | timedelta | None:
    if isinstance(window, str):
        if slide is not None:
            raise InvalidArgument(
                "slide", f"goes with a {{window}} of a length such as 7d, not with {verbatim(window)}"
            )
        return CalendarWindows(window, zone)
    if slide is None:
        return window
    if not isinstance(window, timedelta):
        raise InvalidArgument("slide", "needs {window}: how long the windows are that start every so often")
    return SlidingWindows(window, slide)


def _in_zone(at: Any, zone: ZoneInfo) -> Any:  # noqa: ANN401 - what is no moment is refused later
    if isinstance(at, date) and not isinstance(at, datetime):
        at = datetime.combine(at, time())
    return at.replace(tzinfo=zone) if isinstance(at, datetime) and at.tzinfo is None else at


_MOMENT = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<hour>[0-9]{2})(?::(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6}))?)?)?)?"
    r" ?(?P<zone>Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_LENGTHS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LENGTH_RULE = "a number and one of s, m, h, d, w, such as 7d"


def duration(text: str) -> timedelta:
    """A length of time such as 7d, 12h or 90m."""
    match = re.fullmatch(r"([0-9]{1,7})\s*([smhdw])", text.strip())
    if not match or not 0 < int(match[1]) <= 10**6:
        raise ValueError(f"must be {_LENGTH_RULE}; got {text!r}")
    return timedelta(**{_LENGTHS[match[2]]: int(match[1])})


def delay(text: str) -> timedelta:
    """A length of time that may be none, such as 0s."""
    return timedelta(0) if re.fullmatch(r"0+\s*[smhdw]", text.strip()) else duration(text)


def window_length(text: str) -> timedelta | str:
    """A length of time such as 7d, or one of the `UNITS` of a calendar."""
    if text in UNITS:
        return text
    try:
        return duration(text)
    except ValueError:
        meant = (hint := did_you_mean(text, UNITS)) and f": {hint}"
        raise ValueError(f"must be {_LENGTH_RULE}, or {', '.join(UNITS)}; got {text!r}{meant}") from None


def moment(text: str) -> datetime:
    """A point in time in ISO 8601, without a time zone where none is given.

    Fewer texts than `datetime.fromisoformat` reads: no week dates, and no digits run together.
    """
    match = _MOMENT.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        hour, minute, second = (match[name] or "00" for name in ("hour", "minute", "second"))
        zone = (match["zone"] or "").replace(":", "")
        zone = "+00:00" if zone == "Z" else zone and f"{zone[:3]}:{zone[3:] or '00'}"
        fraction = (match["fraction"] or "").ljust(6, "0")
        return datetime.fromisoformat(f"{match['day']}T{hour}:{minute}:{second}.{fraction}{zone}")
    except ValueError:
        rule = "must be a date or time such as 2026-01-05"
        raise ValueError(f"{rule}, got {text!r}") from None


class TimeSlices:
    """The slices of a period between neighbouring edges of windows: the rows of a slice share their windows. Tells
    in which slice rows of an unbounded input lie, and which windows are still open to them.

    Args:
        first, after: by slice, the first window of its rows and the one after their last, (slices,).
    """

    def __init__(self, period: Period) -> None:
        self._period = period
        self._edges = np.union1d(period.starts, period.ends)
        before = np.append(self._edges[:1] - 1, self._edges)  # one time in every slice
        self.first, self.after = period.spans(before)

    def __len__(self) -> int:
        return len(self.first)

    def of(self, times: Instants, arrived: Instants | None, closed: int) -> tuple[Instants, Instants]:
        """The slice of every row, and the first of its windows that it is on time for: none if that is not before
        the slice's `after`.

        Args:
            times, arrived: microseconds since 1970 UTC, (n,). A row is late for the windows closed when it arrived.
            closed: how many windows had closed before any of the rows was read.
        """
        time_slice = np.searchsorted(self._edges, times, side="right")
        first = np.maximum(self.first[time_slice], closed)
        if arrived is not None:
            first = np.maximum(first, np.searchsorted(self._period.closing, arrived, side="right"))
        return time_slice, first


def period_of(options: Mapping[str, Any]) -> Period | None:
    """The declared period, or None where all rows are ranked together.

    Args:
        options: those of the fields period_from, period_to, window, slide, to_date, time_zone and allowed_lateness that
            were given, read.

    Raises:
        InvalidArgument: half of a period was given, or it breaks a rule.
    """
    start, end, zone = options.get("period_from"), options.get("period_to"), options.get("time_zone", "UTC")
    if start is None and end is None:
        for name in ("window", "to_date"):
            if name not in options:
                continue
            raise InvalidArgument(
                name,
                "needs {period_from} and {period_to}",
                "declare the period, because windows taken from the data would reveal when somebody was active",
            )
        return None
    if start is None or end is None:
        raise InvalidArgument("period_from", "and {period_to} go together", "give both, so that the period is public")
    windows = {name: options[name] for name in ("window", "slide", "to_date", "allowed_lateness") if name in options}
    return Period.of(start, end, **windows, time_zone=zone)
