"""Windowings, which divide a period into windows: `Windowing` and its kinds, `Run` and `WindowBounds`.

Schedules, budgets and ledgers use starts, ends, overlap and runs only, so a new kind is just a class here.
"""

from __future__ import annotations

import abc
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.errors import InvalidArgument


class Run(NamedTuple):
    """Regular windows: `number` of them, `size` microseconds long, one every `step` from `start`; none beyond `end`."""

    start: int
    end: int
    size: int
    step: int
    number: int

    def bounds(self) -> tuple[Instants, Instants]:
        """Start and end of every window, shape (number,) each."""
        starts = self.start + np.arange(self.number, dtype=np.int64) * self.step
        return starts, np.minimum(starts + self.size, self.end)

    def overlapping(self, starts: Instants, ends: Instants) -> Instants:
        """How many of these windows overlap each of the given slices, shape as given."""
        first = np.maximum(-((self.start + self.size - starts - 1) // self.step), 0)
        last = np.minimum((ends - 1 - self.start) // self.step, self.number - 1)
        return np.where(starts < self.end, np.maximum(last - first + 1, 0), 0)


class Windowing(abc.ABC):
    """A division of a period [start, end), both in UTC, into windows in order of their ends.

    Attributes:
        to_date: every window begins with the period.
        follow: the windows follow each other, and there may be several.
    """

    to_date: ClassVar[bool] = False
    follow: ClassVar[bool] = False

    @abc.abstractmethod
    def runs(self, start: datetime, end: datetime) -> list[Run]:
        """All windows, as runs of regular ones."""

    def check(self, start: datetime, end: datetime) -> None:  # noqa: B027 - some divide any period
        """Raise InvalidArgument unless the period can be divided so."""

    def check_filled(self, start: datetime, end: datetime) -> None:  # noqa: B027 - most fill any period they divide
        """Raise InvalidArgument if a window is of another length than its kind has."""

    def at_least(self, start: datetime, end: datetime) -> int:
        """How many windows there are at least, known without listing them."""
        return sum(run.number for run in self.runs(start, end))

    def overlap(self, windows: int) -> int:
        """How many of so many windows the rows of one of them can be in."""
        return 1


@dataclass(frozen=True)
class Whole(Windowing):
    """The whole period is one window."""

    identity_tag: ClassVar[str] = "whole"

    def runs(self, start: datetime, end: datetime) -> list[Run]:
        length = (end - start) // MICROSECOND
        return [Run(microseconds(start), microseconds(end), length, length, 1)]


@dataclass(frozen=True)
class FixedWindows(Windowing):
    """Windows of one length from the start on; the last one ends with the period."""

    identity_tag: ClassVar[str] = "fixed-windows"
    follow: ClassVar[bool] = True

    length: timedelta

    def __post_init__(self) -> None:
        whole_milliseconds(self.length)
        if self.length <= timedelta(0):
            raise InvalidArgument("window", f"must be longer than nothing, got {self.length}")

    def check_filled(self, start: datetime, end: datetime) -> None:
        rest = (end - start) % self.length
        if not rest:
            return
        ends = [end - rest] if end - rest > start else []
        with suppress(OverflowError):  # beyond the year 9999
            ends.append(end + (self.length - rest))
        sizes = [str(size).removesuffix(", 0:00:00") for size in (rest, self.length)]
        raise InvalidArgument(
            "window",
            f"must fill the period with windows of one length, and the last one would have {' of '.join(sizes)}",
            f"end the period at {' or at '.join(map(utc_text, ends))}, or take day, "
            "week, month, quarter or year, which follow the calendar and its clock changes"
            if ends
            else "take a shorter one",
        )

    def runs(self, start: datetime, end: datetime) -> list[Run]:
        length = end - start
        size = min(self.length, length)
        count = -(-length // size)
        return [Run(microseconds(start), microseconds(end), size // MICROSECOND, size // MICROSECOND, count)]


@dataclass(frozen=True)
class SlidingWindows(Windowing):
    """Windows of `size`, one every `every`, which overlap: all those that lie wholly in the period.

    A row belongs to up to ceil(size / every) of them.
    """

    identity_tag: ClassVar[str] = "sliding-windows"

    size: timedelta
    slide: timedelta

    def __post_init__(self) -> None:
        if not timedelta(0) < self.slide <= self.size:
            lengths = [str(length).removesuffix(", 0:00:00") for length in (self.size, self.slide)]
            raise InvalidArgument(
                "slide", f"must be above 0 and at most the length of a window, {lengths[0]}, got {lengths[1]}"
            )

    def check(self, start: datetime, end: datetime) -> None:
        whole_milliseconds(self.size)
        whole_milliseconds(self.slide)
        if self.size > end - start:
            raise InvalidArgument("", f"period must hold a whole window of {self.size}, got {start} to {end}")

    def runs(self, start: datetime, end: datetime) -> list[Run]:
        size, step = self.size // MICROSECOND, self.slide // MICROSECOND
        first, last = microseconds(start), microseconds(end)
        return [Run(first, last, size, step, (last - first - size) // step + 1)]

    def overlap(self, windows: int) -> int:
        """A window overlaps those that start less than its length before or after it, on either side one fewer than
        ceil(size / every): weeks that start every day, 7 - 1 before and 7 - 1 after, so that 13 hold rows of one."""
        return min(windows, 2 * -(-self.size // self.slide) - 1)


@dataclass(frozen=True)
class ToDate(Windowing):
    """Windows that all begin with the period, and end where those of `steps` do: the counts of a period to date.

    They are one *series*: a row counts from the first of them that it is in, and is counted once.

    Args:
        steps: `FixedWindows` or `CalendarWindows`.
    """

    identity_tag: ClassVar[str] = "to-date"
    to_date: ClassVar[bool] = True

    steps: Windowing

    def __post_init__(self) -> None:
        if not self.steps.follow:
            raise InvalidArgument(
                "to_date",
                "needs {window} without {slide}: how often a ranking of the period so far is published",
                "give a length such as 7d, or day, week, month, quarter or year",
            )

    def check(self, start: datetime, end: datetime) -> None:
        self.steps.check(start, end)

    def check_filled(self, start: datetime, end: datetime) -> None:
        self.steps.check_filled(start, end)

    def at_least(self, start: datetime, end: datetime) -> int:
        return self.steps.at_least(start, end)

    def runs(self, start: datetime, end: datetime) -> list[Run]:
        first = microseconds(start)
        ends = (int(at) for run in self.steps.runs(start, end) for at in run.bounds()[1])
        return [Run(first, at, at - first, at - first, 1) for at in ends]

    def overlap(self, windows: int) -> int:
        return windows


def windowing_of(way: Windowing | timedelta | None) -> Windowing:
    """A windowing: a length stands for windows of it, None for one whole window."""
    if isinstance(way, timedelta):
        return FixedWindows(way)
    if way is not None and not isinstance(way, Windowing):
        raise InvalidArgument(
            "window",
            f"must be a timedelta or a Windowing, got {type(way).__name__}",
            "Period.of takes texts such as 7d and month",
        )
    return Whole() if way is None else way


def whole_milliseconds(length: timedelta) -> None:
    """Raise ValueError unless a length is as coarse as Beam's windows are."""
    if length % MILLISECOND:
        raise InvalidArgument(
            "window", f"must be whole milliseconds, which is as fine as Beam's windows are, got {length}"
        )


Instants = NDArray[np.int64]
"""Microseconds since 1970 UTC."""

MICROSECOND = timedelta(microseconds=1)
MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class WindowBounds:
    """A half-open window [start, end) of event time in UTC; both None for all rows whatever their time."""

    start: datetime | None = None
    end: datetime | None = None

    def label(self, group: str | None = None) -> str:
        """The name of the window in a release's seed and in file names, without spaces, brackets or colons.

        Args:
            group: names this group's ranking in the window, behind a bar, which no window's own name has.
        """
        if group is not None:
            return f"{self.label()}|{group}"
        if self.start is None or self.end is None:
            return "all"
        return f"{_stamp(self.start)}--{_stamp(self.end)}"


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 UTC, exactly."""
    return (moment - _EPOCH) // MICROSECOND


def from_microseconds(value: int) -> datetime:
    """The moment in UTC. Raises OverflowError outside the years 1 to 9999."""
    return _EPOCH + value * MICROSECOND


def utc_text(moment: datetime, timespec: str = "auto") -> str:
    """A moment as ISO 8601, UTC as Z: one spelling wherever moments are published or told."""
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def _stamp(moment: datetime) -> str:
    text = moment.astimezone(UTC)
    return text.strftime("%Y%m%dT%H%M%SZ") if text.microsecond == 0 else text.strftime("%Y%m%dT%H%M%S.%fZ")
