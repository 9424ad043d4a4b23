"""Schedules where the clock is changed: every period once, under its own name, in zones that make it hard."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from private_topk.pipelines.cli import main
from private_topk.pipelines.cli.report import _number
from private_topk.pipelines.scheduled.file import read_report
from private_topk.pipelines.scheduled.periods import Periods
from private_topk.pipelines.scheduled.publish import ScheduledReport
from private_topk.pipelines.scheduled.schedule import Schedule
from private_topk.transforms.windows import WindowBounds
from tests.pipelines.conftest import let_reports_be_called_on
from tests.pipelines.support import WEEKLY
from tests.refusals import refused

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def winter(monkeypatch: pytest.MonkeyPatch) -> None:
    """After all changes of the year."""
    let_reports_be_called_on(datetime(2026, 11, 29, tzinfo=UTC), monkeypatch)


CHANGES = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("Australia/Lord_Howe", "2026-04-05"),
    ("Australia/Lord_Howe", "2026-10-04"),  # by half an hour
    ("Atlantic/Azores", "2026-03-29"),
    ("Atlantic/Azores", "2026-10-25"),  # midnight comes twice
    ("America/Havana", "2026-03-08"),
    ("America/Havana", "2026-11-01"),  # midnight is skipped, and comes twice
    ("Africa/Casablanca", "2026-02-15"),
    ("Africa/Casablanca", "2026-03-22"),  # Ramadan
    ("Pacific/Apia", "2011-12-30"),
    ("Pacific/Apia", "2011-09-24"),  # a whole day is skipped
    ("Asia/Tokyo", "2026-03-29"),
]
"""A zone and a day near a change of its clock."""


def schedule(zone: str, day: str, every: timedelta | str, before: timedelta = 2 * DAY) -> Schedule:
    first = (datetime.fromisoformat(day) - before).replace(tzinfo=ZoneInfo(zone))
    return Schedule(first.astimezone(UTC), every, ZoneInfo(zone))


@pytest.mark.parametrize("every", [HOUR, HOUR / 2, 36 * HOUR, DAY, "day", 2 * DAY, "week", "year"], ids=str)
@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_every_period_once_under_its_own_name(zone: str, day: str, every: timedelta | str) -> None:
    found = schedule(zone, day, every)
    exact = isinstance(every, timedelta) and every % DAY != timedelta(0)
    number = 4 * DAY // every if exact and isinstance(every, timedelta) else 5
    periods = [found.period(n) for n in range(number)]
    for n, period in enumerate(periods):
        assert n == 0 or period.start == periods[n - 1].end, "no gap and no overlap"
        assert found.number(period.end) == n and found.ended(period.end) == n + 1
        assert found.ended(period.end - timedelta(seconds=1)) == n
        if exact:
            assert period.end - period.start == every
        else:
            local = period.start.astimezone(found.zone)
            skipped = local.replace(tzinfo=None, hour=0, minute=0) != local.replace(tzinfo=None)
            assert local.hour == 0 or skipped and local.hour == 1, "at midnight, or when it would have been"
    assert len({found.words(period.start) for period in periods}) == number
    assert len({found.words(period.end) for period in periods}) == number
    assert len({WindowBounds(period.start, period.end).label() for period in periods}) == number


def earlier_name(moment: datetime, zone: ZoneInfo) -> str:
    """How moments were written before names knew of summer time."""
    local = moment.astimezone(zone)
    return f"{local:%Y-%m-%d}" if (local.hour, local.minute) == (0, 0) else f"{local:%Y-%m-%dT%H%M%S}"


@pytest.mark.parametrize("every", [HOUR, HOUR / 2, 36 * HOUR, "day"], ids=str)
@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_unambiguous_names_of_periods_are_unchanged(zone: str, day: str, every: timedelta | str) -> None:
    found = schedule(zone, day, every)
    starts = [found.period(n).start for n in range(5 * DAY // every if isinstance(every, timedelta) else 5)]
    before = [earlier_name(start, found.zone) for start in starts]
    for n, start in enumerate(starts):
        name = found.words(start)
        assert (name == before[n]) == (before[n] not in before[:n]), "the second of two, and no other, has a new name"
        assert name.startswith(before[n].partition("T")[0])


def test_the_hour_that_comes_twice() -> None:
    found = schedule("Europe/Berlin", "2026-10-25", HOUR, timedelta(0))
    assert [
        found.words(found.period(n).start) for n in range(5)
    ] == "2026-10-25 2026-10-25T010000 2026-10-25T020000 2026-10-25T020000+0100 2026-10-25T030000".split()
    daily = schedule("Atlantic/Azores", "2026-10-25", "day")
    assert [daily.words(daily.period(n).start) for n in (2, 3)] == ["2026-10-25", "2026-10-26"]


def test_a_day_that_never_was_is_no_period() -> None:
    days = schedule("Pacific/Apia", "2011-12-29", "day", timedelta(0))
    assert [days.words(days.period(n).start) for n in range(3)] == ["2011-12-29", "2011-12-31", "2012-01-01"]
    assert {days.period(n).end - days.period(n).start for n in range(60)} == {DAY}
    morning = Schedule(days.first + 6 * HOUR, "day", days.zone)
    assert [morning.words(morning.period(n).start) for n in range(2)] == ["2011-12-29T060000", "2011-12-31T060000"]
    weeks = schedule("Pacific/Apia", "2011-12-29", "week", timedelta(0))
    assert [(weeks.period(n).end - weeks.period(n).start) // DAY for n in range(2)] == [6, 7]


@pytest.mark.parametrize("every", [HOUR, "day", "month"], ids=str)
def test_periods_up_to_the_year_9999_do_not_overflow(every: timedelta | str) -> None:
    found = schedule("Europe/Berlin", "2026-01-01", every, timedelta(0))
    until = datetime(9999, 12, 30, tzinfo=UTC)
    number = found.ended(until)
    assert found.period(number - 1).end <= until
    assert found.ended(datetime.max.replace(tzinfo=UTC)) >= number


HOURS = "every: 1h\n  first: 2026-10-25T01:00:00\n  time_zone: Europe/Berlin\n  horizon: 4"
HOURLY = WEEKLY.replace("weekly", "hourly").replace("every: week\n  first: 2026-01-05", HOURS)


def test_hourly_reports_survive_the_end_of_summer_time(tmp_path: Path) -> None:
    rows = [f"user {n},item {n % 3},2026-10-{24 + n // 24 % 2}T{n % 24:02}:30:00Z" for n in range(480)]
    (tmp_path / "rows.csv").write_text("\n".join(["user,item,time", *rows]) + "\n")
    (tmp_path / "items.txt").write_text("item 0\nitem 1\nitem 2\n")
    (tmp_path / "key").write_text("a key of enough bytes")
    (tmp_path / "hourly.yaml").write_text(HOURLY)
    clock = ["--until", "2026-10-25T04:00:00"]
    assert main(["report", str(tmp_path / "hourly.yaml"), "--quiet", "--backfill", *clock]) == 0
    names = ["2026-10-25T010000", "2026-10-25T020000", "2026-10-25T020000+0100", "2026-10-25T030000"]
    assert sorted(path.name for path in tmp_path.glob("out/*.csv")) == sorted(f"hourly-{name}.csv" for name in names)
    report = ScheduledReport(read_report(str(tmp_path / "hourly.yaml")))
    assert len({report.release_id(n) for n in range(4)}) == 4
    assert all(map(report.published, range(4)))


@pytest.mark.parametrize(
    ("zone", "every", "first", "ends"),
    [
        ("America/Havana", "day", "2026-03-07", ["2026-03-08", "2026-03-09"]),  # midnight is skipped
        ("America/Havana", "day", "2025-10-31", ["2025-11-01", "2025-11-02", "2025-11-03"]),  # and comes twice
        (
            "Europe/Berlin",
            "1h",
            "2026-10-25T00:00",
            ["2026-10-25T01:00", "2026-10-25T02:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00"],
        ),
        ("Europe/Berlin", "1h", "2026-03-29T00:00", ["2026-03-29T01:00", "2026-03-29T02:00", "2026-03-29T04:00"]),
    ],
)
def test_a_period_is_found_by_its_end_as_it_is_read(
    zone: str, every: str, first: str, ends: list[str], tmp_path: Path
) -> None:
    """To Python a reading that comes twice, or never, equals no moment of another zone."""
    text = HOURLY.replace("Europe/Berlin", zone).replace("every: 1h", f"every: {every}")
    (tmp_path / "r.yaml").write_text(text.replace("2026-10-25T01:00:00", first))
    asked = Periods(read_report(str(tmp_path / "r.yaml")))
    found = [_number(asked, Namespace(file="r.yaml", window_end=datetime.fromisoformat(end))) for end in ends]
    assert found == list(range(len(ends)))
    for end in (datetime.min, datetime.max):
        with refused("window_end", "ends no period of"):
            _number(asked, Namespace(file="r.yaml", window_end=end))
