"""Declared windows, fixed, sliding and of a calendar, and the windows of Beam's that stand for them on a runner."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing import test_stream

from private_topk.transforms.assign_windows import (
    AssignWindows,
    SplitDoFn,
    beam_windows,
    declared_window,
    into_windows,
    last_moment,
)
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.windows import (
    CalendarWindows,
    Period,
    SlidingWindows,
    WindowBounds,
    from_microseconds,
    microseconds,
)
from private_topk.transforms.windows.calendar import skipped_days
from tests.refusals import refused

BERLIN = ZoneInfo("Europe/Berlin")
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
START, END = datetime(2026, 1, 5, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def calendar_period(unit: str, zone: str, first: tuple[int, int, int], last: tuple[int, int, int]) -> Period:
    start, end = (datetime(*day, tzinfo=ZoneInfo(zone)) for day in (first, last))
    return Period(start, end, CalendarWindows(unit, zone))


TO_THE_MILLISECOND = Period(
    datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC),
    timedelta(seconds=3),
)
PERIODS = [
    Period(START, START + 10 * DAY, SlidingWindows(7 * DAY, DAY)),
    Period(START, START + 10 * DAY, SlidingWindows(5 * HOUR, 2 * HOUR)),
    Period(START, START + 10 * DAY, SlidingWindows(3 * DAY, 3 * DAY), allowed_lateness=HOUR),
    Period(START, START + 10 * DAY, timedelta(hours=7), allowed_lateness=timedelta(minutes=1)),
    Period(START, START + 10 * DAY),
    TO_THE_MILLISECOND,
    calendar_period("day", "Europe/Berlin", (2026, 1, 1), (2027, 1, 1)),
    calendar_period("week", "Asia/Kathmandu", (2026, 1, 5), (2026, 2, 2)),
    calendar_period("month", "America/New_York", (2024, 1, 1), (2026, 4, 1)),
]


@pytest.mark.parametrize("period", PERIODS)
def test_spans_and_numbers_agree_with_the_bounds(period: Period) -> None:
    windows = period.windows()
    assert len(windows) == len(period) and windows[0].start == period.start and windows[-1].end <= period.end
    edges = [microseconds(edge) for window in windows for edge in (window.start, window.end)]
    times = np.array(sorted({edge + step for edge in edges for step in (-1, 0, 1)} | {-(2**62), 2**62}))
    found = (*(part.tolist() for part in period.spans(times)), period.number(times).tolist())
    for time, first, after, number in zip(times.tolist(), *found, strict=True):
        inside = [n for n, w in enumerate(windows) if microseconds(w.start) <= time < microseconds(w.end)]
        assert list(range(first, after)) == inside and [number] == (inside or [-1])[:1]


@pytest.mark.parametrize("period", PERIODS)
def test_a_window_of_beams_ends_when_the_declared_one_closes(period: Period) -> None:
    found = beam_windows(period)
    assert len(set(found)) == len(period)
    assign = into_windows(period).windowing.windowfn
    for number, window in enumerate(found):
        declared = period.window(number)
        closes = microseconds(declared.end + period.allowed_lateness)
        assert window.max_timestamp().micros // 1000 == closes // 1000
        assert last_moment(period, number).micros < closes or period is TO_THE_MILLISECOND
        assert assign.assign(assign.AssignContext(last_moment(period, number))) == [window]
        assert declared_window(period, window) == declared
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
    split = SplitDoFn(period)
    split.setup()
    found = [
        (int(row), declared_window(period, window))
        for part in split.process(pa.RecordBatch.from_pydict(columns))
        for window in part.windows
        for row in part.value["user"].to_pylist()
    ]
    windows, spans = period.windows(), zip(*period.spans(times), strict=True)
    expected = [
        (row, window)
        for row, (span, came) in enumerate(zip(spans, arrived.tolist(), strict=True))
        for window in windows[slice(*span)]
        if not arrivals or came < microseconds(window.end + period.allowed_lateness)
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_stream_needs_windows_that_no_single_millisecond_tells_apart() -> None:
    stream = test_stream.TestStream().add_elements([0]).advance_watermark_to_infinity()
    with refused("", "the windows of a stream must close on a grid of two milliseconds or more"):
        beam.Pipeline() | stream.with_output_types(pa.RecordBatch) | AssignWindows(TO_THE_MILLISECOND)


def days(*bounds: tuple[int, int]) -> list[WindowBounds]:
    return [WindowBounds(START + first * DAY, START + last * DAY) for first, last in bounds]


@pytest.mark.parametrize(
    ("period", "windows"),
    [
        (Period(START, START + 10 * DAY, 4 * DAY), days((0, 4), (4, 8), (8, 10))),
        (Period(START, START + 8 * DAY, 4 * DAY), days((0, 4), (4, 8))),
        (Period(START, START + 10 * DAY), days((0, 10))),
        (Period(START, START + 10 * DAY, 10**6 * DAY), days((0, 10))),
        (Period(START, START + 10 * DAY, SlidingWindows(7 * DAY, 2 * DAY)), days((0, 7), (2, 9))),
        (Period(END - 3 * DAY, END, timedelta(weeks=10**6)), [WindowBounds(END - 3 * DAY, END)]),
    ],
)
def test_windows_lie_in_the_period(period: Period, windows: list[WindowBounds]) -> None:
    assert period.windows() == windows


@pytest.mark.parametrize(
    ("period", "hours"),
    [
        (calendar_period("day", "Europe/Berlin", (2026, 3, 28), (2026, 3, 31)), [24, 23, 24]),
        (calendar_period("day", "Pacific/Apia", (2011, 12, 28), (2012, 1, 2)), [24, 24, 24, 24]),
        (Period(datetime(2026, 3, 28, tzinfo=BERLIN), datetime(2026, 3, 31, tzinfo=BERLIN), DAY), [24, 24, 23]),
    ],
    ids=["days follow the clock", "a day that a zone left out is no window", "a length is a length"],
)
def test_days_of_a_time_zone_have_23_to_25_hours(period: Period, hours: list[int]) -> None:
    assert [(w.end - w.start) // HOUR for w in period.windows()] == hours
    assert all(w.start.utcoffset() == timedelta(0) for w in period.windows())


@pytest.mark.parametrize(
    ("zone", "skipped"),
    [("Pacific/Apia", [date(2011, 12, 30)]), ("Pacific/Kwajalein", [date(1993, 8, 21)]), ("Europe/Berlin", [])],
)
def test_days_skipped_by_a_time_zone_are_known(zone: str, skipped: list[date]) -> None:
    assert skipped_days(ZoneInfo(zone)) == tuple(skipped)


@pytest.mark.parametrize(
    ("zone", "year"),
    [
        ("Europe/Berlin", 2026),
        ("America/Sao_Paulo", 2018),
        ("Africa/Cairo", 2014),
        ("Australia/Lord_Howe", 2025),
        ("America/Havana", 2025),
    ],
)
@pytest.mark.parametrize("unit", ["day", "week", "month", "quarter"])
def test_calendar_windows_hold_the_moments_of_their_date(zone: str, year: int, unit: str) -> None:
    """Zones that change the clock at midnight are among them: a skipped midnight and one that comes twice."""
    first = datetime(year, 1, 1) - timedelta(days=datetime(year, 1, 1).weekday()) * (unit == "week")
    last = first + timedelta(weeks=52) if unit == "week" else datetime(year + 1, 1, 1)
    start, end = (at.replace(tzinfo=ZoneInfo(zone)) for at in (first, last))
    period, quarter = Period(start, end, CalendarWindows(unit, zone)), timedelta(minutes=15)
    moments = [period.start + n * quarter for n in range((period.end - period.start) // quarter)]
    numbers = period.number(np.array([microseconds(at) for at in moments]))
    shown = [at.astimezone(ZoneInfo(zone)) for at in moments]
    names = [
        {
            "day": at.date(),
            "week": at.isocalendar()[:2],
            "month": (at.year, at.month),
            "quarter": (at.year, (at.month + 2) // 3),
        }[unit]
        for at in shown
    ]
    assert len(set(names)) == len(period) and numbers[0] == 0
    changes = np.array([one != other for one, other in zip(names, names[1:], strict=False)])
    assert np.array_equal(np.diff(numbers), changes.astype(int))


def test_years_and_quarters_are_those_of_the_calendar() -> None:
    """Five years have two leap days or one, and never a window of a day."""
    years = Period.of("2020-01-01", "2025-01-01", "year", time_zone="America/New_York")
    assert [(window.end - window.start).days for window in years.windows()] == [366, 365, 365, 365, 366]
    quarters = Period.of("2026-01-01", "2027-01-01", "quarter")
    assert [str(window.start)[:7] for window in quarters.windows()] == ["2026-01", "2026-04", "2026-07", "2026-10"]


@pytest.mark.parametrize(
    ("texts", "zone", "message"),
    [
        (
            ("2020-01-01", "2025-01-01", "365d"),
            "UTC",
            "window must fill .* the last one would have 2 days of 365 "
            "days.*: end the period at 2024-12-30T00:00:00Z or at 2025-12-30T00:00:00Z, or take day, week, month",
        ),
        (("2026-01-05", "2026-01-08", "1000000w"), "UTC", "would have 3 days of 7000000 days: take a shorter one"),
        (("2026-01-05", "2026-01-08", "7d"), "UTC", "3 days of 7 days: end the period at 2026-01-12T00:00:00Z, or"),
        (("2026-03-23", "2026-04-06", "7d"), "Europe/Berlin", "would have 6 days, 23:00:00 of 7 days"),
    ],
)
def test_a_last_window_of_another_length_is_refused(texts: tuple[str, str, str], zone: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Period.of(*texts, time_zone=zone)


def test_labels_of_windows_are_exact_moments_in_utc() -> None:
    berlin = START.astimezone(BERLIN)
    assert WindowBounds(berlin, START + DAY).label() == "20260105T000000Z--20260106T000000Z"
    assert WindowBounds().label() == "all"
    odd = WindowBounds(START, START + timedelta(microseconds=1)).label("g")
    assert odd == "20260105T000000Z--20260105T000000.000001Z|g"
    for value in (0, -1, 1, 1767225600123457, -62135596800000000, 253402300799999999):
        assert microseconds(from_microseconds(value)) == value


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Period(datetime(2026, 1, 1), START), "start must have a time zone"),
        (lambda: Period(START, datetime(2026, 2, 1)), "end must have a time zone"),
        (lambda: Period(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=10))), START), "lie in the years 1 to 9999"),
        (lambda: Period(END - 30 * DAY, END, CalendarWindows("month")), "whole months within the years 1 to 9999"),
        (lambda: Period(END - 4 * DAY, END, CalendarWindows("week")), "whole weeks within the years 1 to 9999"),
        (lambda: Period(START, START), "must end after it starts"),
        (lambda: Period(START + DAY, START), "must end after it starts"),
        (lambda: Period(START, START + DAY, timedelta(0)), "longer than nothing"),
        (lambda: Period(START, START + DAY, -DAY), "longer than nothing"),
        (lambda: Period(START, START + DAY, MILLISECOND / 1000), "window must be whole milliseconds"),
        (lambda: Period(START + MILLISECOND / 1000, START + DAY), "start must be a whole millisecond"),
        (lambda: Period(START, START + DAY, MILLISECOND), "at most 100,000 windows, got 86,400,000: choose a longer"),
        (lambda: Period(START, START + DAY, allowed_lateness=-HOUR), "allowed_lateness must not be negative"),
        (
            lambda: Period("2026-01-01", "2026-01-11"),
            "^period start must be a datetime, got str: Period.of takes texts",
        ),
        (
            lambda: Period(START, START + DAY, "7d"),
            "must be a timedelta or a Windowing, got str: Period.of takes texts",
        ),
        (lambda: SlidingWindows(DAY, 2 * DAY), "above 0 and at most the length of a window"),
        (lambda: SlidingWindows(DAY, 0 * DAY), "above 0 and at most the length of a window"),
        (lambda: Period(START, START + DAY, SlidingWindows(2 * DAY, DAY)), "must hold a whole window"),
        (lambda: CalendarWindows("decade"), "one of day, week, month, quarter, year, got decade"),
        (lambda: CalendarWindows("day", "Berlin"), "IANA database such as Europe/Berlin, got 'Berlin'"),
        (lambda: CalendarWindows("day", "../x"), "IANA database"),
        (lambda: Period(START + HOUR, START + 3 * DAY, CalendarWindows("day")), "from 2026-01-05T00:00:00"),
        (lambda: Period(START, START + 3 * DAY, CalendarWindows("week")), "to 2026-01-12T00:00:00"),
        (lambda: Period(START, START + 7 * DAY, CalendarWindows("week", "Europe/Berlin")), "weeks of Europe/B"),
    ],
)
def test_an_invalid_period_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()


@pytest.mark.parametrize(
    ("texts", "others", "period"),
    [
        (("2026-01-05", "2026-01-15"), {}, Period(START, START + 10 * DAY)),
        ((START.date(), "2026-01-15", "5d"), {}, Period(START, START + 10 * DAY, 5 * DAY)),
        (
            ("2026-01-05T00:00Z", START + 8 * DAY, 4 * DAY),
            {"slide": "1d", "allowed_lateness": "2h"},
            Period(START, START + 8 * DAY, SlidingWindows(4 * DAY, DAY), 2 * HOUR),
        ),
        (
            ("2026-03-28", "2026-04-01", "day"),
            {"time_zone": "Europe/Berlin"},
            calendar_period("day", "Europe/Berlin", (2026, 3, 28), (2026, 4, 1)),
        ),
    ],
)
def test_a_period_is_read_from_its_texts(texts: tuple, others: dict, period: Period) -> None:
    assert Period.of(*texts, **others) == period


@pytest.mark.parametrize(
    ("texts", "others", "field"),
    [
        (("monday", "2026-01-11"), {}, "start"),
        (("2026-01-01", "later"), {}, "end"),
        (("2026-01-01", "2026-01-11", "weekly"), {}, "window"),
        (("2026-01-01", "2026-01-11", "7"), {}, "window"),
        (("2026-01-01", "2026-01-11", 7), {}, "window"),
        (("2026-01-01", "2026-01-11", "7d"), {"slide": "often"}, "slide"),
        (("2026-01-01", "2026-01-11"), {"slide": "1d"}, "slide"),
        (("2026-01-01", "2026-01-11", "month"), {"slide": "1d"}, "slide"),
        (("2026-01-01", "2026-01-11"), {"time_zone": "Berlin"}, "time_zone"),
        (("2026-01-01", "2026-01-11"), {"allowed_lateness": "soon"}, "allowed_lateness"),
        ((20260101, "2026-01-11"), {}, ""),
        (("2026-01-11", "2026-01-01"), {}, ""),
    ],
)
def test_an_invalid_period_is_refused_by_its_field(texts: tuple, others: dict, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Period.of(*texts, **others)
    assert caught.value.field == field
