from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from private_topk.transforms.errors import Refusal
from private_topk.transforms.windows import (
    CalendarWindows,
    Period,
    SlidingWindows,
    WindowBounds,
    from_microseconds,
    microseconds,
)

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
        (
            (datetime(9999, 12, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), CalendarWindows("month")),
            "period must be made of whole months within the years 1 to 9999",
        ),
        (
            (datetime(9999, 12, 27, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), CalendarWindows("week")),
            "period must be made of whole weeks within the years 1 to 9999",
        ),
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


BERLIN = ZoneInfo("Europe/Berlin")
WRITTEN = [
    (("2026-01-01", "2026-01-11"), {}, Period(START, day(10))),
    (("2026-01-01", "2026-01-11", "4d"), {}, Period(START, day(10), timedelta(days=4))),
    (("2026-01-01T00:00Z", day(8), timedelta(days=4)), {"every": "1d", "slack": "2h"},
     Period(START, day(8), SlidingWindows(timedelta(days=4), timedelta(days=1)), timedelta(hours=2))),
    (("2026-03-28", "2026-04-01", "day"), {"time_zone": "Europe/Berlin"},
     Period(datetime(2026, 3, 28, tzinfo=BERLIN), datetime(2026, 4, 1, tzinfo=BERLIN),
            CalendarWindows("day", "Europe/Berlin"))),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "others", "period"), WRITTEN)
def test_a_period_as_it_is_written(texts: tuple, others: dict, period: Period) -> None:
    assert Period.of(*texts, **others) == period


@pytest.mark.parametrize(
    ("texts", "others", "field"),
    [
        (("monday", "2026-01-11"), {}, "period_from"),
        (("2026-01-01", "later"), {}, "period_to"),
        (("2026-01-01", "2026-01-11", "weekly"), {}, "window"),
        (("2026-01-01", "2026-01-11", "7"), {}, "window"),
        (("2026-01-01", "2026-01-11", 7), {}, "window"),
        (("2026-01-01", "2026-01-11", "7d"), {"every": "often"}, "every"),
        (("2026-01-01", "2026-01-11"), {"every": "1d"}, "every"),
        (("2026-01-01", "2026-01-11", "month"), {"every": "1d"}, "every"),
        (("2026-01-01", "2026-01-11"), {"time_zone": "Berlin"}, "time_zone"),
        (("2026-01-01", "2026-01-11"), {"slack": "soon"}, "slack"),
        ((20260101, "2026-01-11"), {}, ""),
        (("2026-01-11", "2026-01-01"), {}, ""),
    ],
)
def test_what_is_no_period_is_told_by_its_field(texts: tuple, others: dict, field: str) -> None:
    with pytest.raises(Refusal) as caught:
        Period.of(*texts, **others)
    assert caught.value.field == field


def test_texts_in_place_of_moments_are_told_where_they_belong() -> None:
    with pytest.raises(Refusal, match=r"^period start must be a datetime, got str: Period.of takes texts, such as"):
        Period("2026-01-01", "2026-01-11", "7d")  # type: ignore[arg-type]
    with pytest.raises(Refusal, match=r"must be a timedelta or a Windowing, got str: Period.of takes texts such"):
        Period(START, day(10), "7d")  # type: ignore[arg-type]
