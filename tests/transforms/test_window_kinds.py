"""Sliding and calendar windows, and the Beam windows that stand for windows on a runner."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms.windows import CalendarWindows, Period, SlidingWindows, WindowBounds, microseconds
from private_topk.transforms.windows.assign import _SplitDoFn, beam_windows, declared_window, into_windows, last_moment
from private_topk.transforms.windows.calendar import skipped_days

UTC = timezone.utc
START = datetime(2026, 1, 5, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def calendar_period(unit: str, zone: str, first: tuple[int, int, int], last: tuple[int, int, int]) -> Period:
    start, end = (datetime(*day, tzinfo=ZoneInfo(zone)) for day in (first, last))
    return Period(start, end, CalendarWindows(unit, zone))


PERIODS = [
    Period(START, START + 10 * DAY, SlidingWindows(7 * DAY, DAY)),
    Period(START, START + 10 * DAY, SlidingWindows(5 * HOUR, 2 * HOUR)),
    Period(START, START + 10 * DAY, SlidingWindows(3 * DAY, 3 * DAY), slack=HOUR),
    Period(START, START + 10 * DAY, timedelta(hours=7), slack=timedelta(minutes=1)),
    Period(START, START + 10 * DAY),
    calendar_period("day", "Europe/Berlin", (2026, 1, 1), (2027, 1, 1)),
    calendar_period("week", "Asia/Kathmandu", (2026, 1, 5), (2026, 2, 2)),
    calendar_period("month", "America/New_York", (2024, 1, 1), (2026, 4, 1)),
]  # fmt: skip


@pytest.mark.parametrize("period", PERIODS)
def test_spans_agree_with_the_bounds(period: Period) -> None:
    windows = period.windows()
    assert len(windows) == len(period) and windows[0].start == period.start
    edges = [microseconds(edge) for window in windows for edge in (window.start, window.end)]
    times = np.array(sorted({edge + step for edge in edges for step in (-1, 0, 1)}))
    for time, first, after in zip(times.tolist(), *(part.tolist() for part in period.spans(times)), strict=True):
        inside = [n for n, w in enumerate(windows) if microseconds(w.start) <= time < microseconds(w.end)]
        assert list(range(first, after)) == inside


@pytest.mark.parametrize("period", PERIODS)
def test_a_cell_ends_when_its_window_closes_and_is_beams_own(period: Period) -> None:
    found = beam_windows(period)
    assert len(set(found)) == len(period)
    assign = into_windows(period).windowing.windowfn
    for number, cell in enumerate(found):
        window = period.window(number)
        closes = microseconds(window.end + period.slack)
        assert cell.max_timestamp().micros // 1000 == closes // 1000 and last_moment(period, number).micros < closes
        assert assign.assign(assign.AssignContext(last_moment(period, number))) == [cell]
        assert declared_window(period, cell) == window
    with pytest.raises(RuntimeError, match="not declared"):
        declared_window(period, assign.assign(assign.AssignContext(last_moment(period, -1) + 10**8))[0])


@pytest.mark.parametrize("arrivals", [False, True], ids=["by time", "by time and arrival"])
@pytest.mark.parametrize("period", PERIODS)
def test_rows_are_in_the_windows_of_their_time_that_were_open_when_they_arrived(period: Period, arrivals: bool) -> None:
    state = np.random.RandomState(1)
    start, end = (microseconds(edge) for edge in (period.start, period.end))
    times = state.randint(start - 10**10, end + 10**10, 2000)
    arrived = times + state.randint(0, 2 * (end - start) // min(len(period), 5), 2000)
    names = [str(n) for n in range(2000)]
    columns = {"user": names, "item": names, "time": times, **({"arrived": arrived} if arrivals else {})}
    split = _SplitDoFn(period)
    split.setup()
    found = [(int(row), declared_window(period, cell)) for part in split.process(pa.RecordBatch.from_pydict(columns))
             for cell in part.windows for row in part.value["user"].to_pylist()]  # fmt: skip
    expected = [
        (row, window)
        for row, (time, came) in enumerate(zip(times.tolist(), arrived.tolist(), strict=True))
        for window in period.windows()[slice(*(int(edge[0]) for edge in period.spans(np.array([time]))))]
        if not arrivals or came < microseconds(window.end + period.slack)
    ]
    assert sorted(found, key=str) == sorted(expected, key=str) and expected


@pytest.mark.parametrize(
    ("zone", "year"),
    [
        ("Europe/Berlin", 2026), ("America/Sao_Paulo", 2018), ("Africa/Cairo", 2014), ("Australia/Lord_Howe", 2025),
        ("America/Havana", 2025),
    ],
)  # fmt: skip
@pytest.mark.parametrize("unit", ["day", "week", "month"])
def test_calendar_windows_hold_the_moments_of_their_date(zone: str, year: int, unit: str) -> None:
    """Zones that change the clock at midnight are among them: a skipped midnight and one that comes twice."""
    first = datetime(year, 1, 1) - timedelta(days=datetime(year, 1, 1).weekday()) * (unit == "week")
    last = first + timedelta(weeks=52) if unit == "week" else datetime(year + 1, 1, 1)
    start, end = (at.replace(tzinfo=ZoneInfo(zone)) for at in (first, last))
    period = Period(start, end, CalendarWindows(unit, zone))
    moments = [
        period.start + n * timedelta(minutes=15) for n in range((period.end - period.start) // timedelta(minutes=15))
    ]
    numbers = period.number(np.array([microseconds(at) for at in moments]))
    names = [_name(at.astimezone(ZoneInfo(zone)), unit) for at in moments]
    assert len(set(names)) == len(period) and numbers[0] == 0
    changes = np.array([one != other for one, other in zip(names, names[1:], strict=False)])
    assert np.array_equal(np.diff(numbers), changes.astype(int))


def _name(at: datetime, unit: str) -> object:
    return {"day": at.date(), "week": at.isocalendar()[:2], "month": (at.year, at.month)}[unit]


def test_a_day_that_a_zone_left_out_is_no_window() -> None:
    period = calendar_period("day", "Pacific/Apia", (2011, 12, 28), (2012, 1, 2))
    assert [(w.end - w.start) // HOUR for w in period.windows()] == [24, 24, 24, 24]
    assert skipped_days(ZoneInfo("Pacific/Apia")) == (date(2011, 12, 30),)
    assert skipped_days(ZoneInfo("Pacific/Kwajalein")) == (date(1993, 8, 21),)
    assert skipped_days(ZoneInfo("Europe/Berlin")) == ()


def test_days_follow_the_clock() -> None:
    period = calendar_period("day", "Europe/Berlin", (2026, 3, 28), (2026, 3, 31))
    assert [(w.end - w.start) // HOUR for w in period.windows()] == [24, 23, 24]
    assert period.windows()[1].label() == "20260328T230000Z--20260329T220000Z"


def test_sliding_windows_lie_wholly_in_the_period() -> None:
    period = Period(START, START + 10 * DAY, SlidingWindows(7 * DAY, 2 * DAY))
    assert period.windows() == [WindowBounds(START + n * DAY, START + (n + 7) * DAY) for n in (0, 2)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SlidingWindows(DAY, 2 * DAY), "above 0 and at most the length of a window"),
        (lambda: SlidingWindows(DAY, 0 * DAY), "above 0 and at most the length of a window"),
        (lambda: Period(START, START + DAY, SlidingWindows(2 * DAY, DAY)), "must hold a whole window"),
        (lambda: CalendarWindows("year"), "one of day, week, month, got year"),
        (lambda: CalendarWindows("day", "Berlin"), "IANA database such as Europe/Berlin, got 'Berlin'"),
        (lambda: CalendarWindows("day", "../x"), "IANA database"),
        (lambda: Period(START + HOUR, START + 3 * DAY, CalendarWindows("day")), "from 2026-01-05T00:00:00"),
        (lambda: Period(START, START + 3 * DAY, CalendarWindows("week")), "to 2026-01-12T00:00:00"),
        (lambda: Period(START, START + 7 * DAY, CalendarWindows("week", "Europe/Berlin")), "weeks of Europe/B"),
        (lambda: Period(START, START + DAY, slack=-HOUR), "slack must not be negative"),
    ],
)  # fmt: skip
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
