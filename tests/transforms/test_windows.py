from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from private_topk.transforms.windows import Period, WindowBounds, from_microseconds, microseconds

UTC = timezone.utc
START = datetime(2026, 1, 1, tzinfo=UTC)


def day(number: int) -> datetime:
    return START + timedelta(days=number)


def test_windows_cover_the_period_and_the_last_is_cut() -> None:
    period = Period(START, day(10), timedelta(days=4))
    assert period.windows() == [
        WindowBounds(day(0), day(4)), WindowBounds(day(4), day(8)), WindowBounds(day(8), day(10)),
    ]  # fmt: skip
    assert Period(START, day(10)).windows() == [WindowBounds(START, day(10))]
    assert Period(START, day(8), timedelta(days=4)).windows() == period.windows()[:2]
    assert Period(START, day(10), timedelta(days=10**6)).windows() == [WindowBounds(START, day(10))]


def test_the_end_of_the_calendar_is_no_edge() -> None:
    last = datetime(9999, 12, 31, tzinfo=UTC)
    assert Period(last - timedelta(days=3), last, timedelta(weeks=10**6)).windows()[-1].end == last


@pytest.mark.parametrize("start", [START, datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)])
def test_number_agrees_with_the_bounds(start: datetime) -> None:
    period = Period(start, start + timedelta(seconds=10, milliseconds=1), timedelta(seconds=3))
    edges = [microseconds(edge) for bounds in period.windows() for edge in (bounds.start, bounds.end)]
    times = sorted({edge + step for edge in edges for step in (-1, 0, 1)} | {-(2**62), 2**62})
    for time, number in zip(times, period.number(np.array(times)).tolist(), strict=True):
        inside = [
            n for n, bounds in enumerate(period.windows())
            if microseconds(bounds.start) <= time < microseconds(bounds.end)
        ]  # fmt: skip
        assert [number] == (inside or [-1])


def test_a_zone_with_summer_time_moves_no_window() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    period = Period(datetime(2026, 3, 28, tzinfo=berlin), datetime(2026, 3, 31, tzinfo=berlin), timedelta(days=1))
    for number, bounds in enumerate(period.windows()):
        assert period.number(np.array([microseconds(bounds.start)])).tolist() == [number]
        assert bounds.start.utcoffset() == timedelta(0)
    assert period.windows()[0].end - period.windows()[0].start == timedelta(days=1)


def test_labels_are_of_utc_and_exact() -> None:
    berlin = START.astimezone(ZoneInfo("Europe/Berlin"))
    assert WindowBounds(berlin, day(1)).label() == "20260101T000000Z--20260102T000000Z"
    assert WindowBounds().label() == "all"
    odd = WindowBounds(START, START + timedelta(microseconds=1)).label()
    assert odd == "20260101T000000Z--20260101T000000.000001Z"


def test_microseconds_are_exact_both_ways() -> None:
    for value in (0, -1, 1, 1767225600123457, -62135596800000000, 253402300799999999):
        assert microseconds(from_microseconds(value)) == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((datetime(2026, 1, 1), day(1)), "start must have a time zone"),
        ((START, datetime(2026, 2, 1)), "end must have a time zone"),
        ((datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=10))), day(1)), "start must lie in the years 1 to 9999"),
        ((START, START), "must end after it starts"),
        ((day(1), START), "must end after it starts"),
        ((START, day(1), timedelta(0)), "longer than nothing"),
        ((START, day(1), timedelta(days=-1)), "longer than nothing"),
        ((START, day(1), timedelta(microseconds=1)), "window must be whole milliseconds"),
        ((START + timedelta(microseconds=1), day(1)), "start must be a whole millisecond"),
        ((START, day(1), timedelta(milliseconds=1)), "at most 100,000 windows, got 86,400,000: choose a longer"),
    ],
)
def test_bad_periods(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Period(*arguments)
