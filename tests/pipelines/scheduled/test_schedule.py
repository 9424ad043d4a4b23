"""Periods against the calendar of Python and of time zones, by counting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from private_topk.pipelines.scheduled.schedule import Schedule

BERLIN = ZoneInfo("Europe/Berlin")
UTC_ZONE = ZoneInfo("UTC")


def schedule(
    every: timedelta | str, first: str = "2026-01-05", zone: ZoneInfo = UTC_ZONE, horizon: int | None = None
) -> Schedule:
    return Schedule(datetime.fromisoformat(first).replace(tzinfo=zone).astimezone(UTC), every, zone, horizon)


def test_calendar_lengths_keep_the_local_clock() -> None:
    weeks, months = schedule("week", zone=BERLIN), schedule("month", "2026-01-01", BERLIN)
    for number in range(60):
        assert weeks.period(number).start.astimezone(BERLIN).time().isoformat() == "00:00:00"
        assert months.period(number).start.astimezone(BERLIN).day == 1
    lengths = {(weeks.period(n).end - weeks.period(n).start) / timedelta(hours=1) for n in range(53)}
    assert lengths == {167, 168, 169}
    assert months.words(months.period(1).end) == "2026-03-01"
    quarters, years = (schedule(every, "2026-02-01", BERLIN) for every in ("quarter", "year"))
    assert (
        quarters.words(quarters.period(1).start) == "2026-05-01" and years.words(years.period(3).start) == "2029-02-01"
    )
    exact = schedule(timedelta(hours=36), zone=BERLIN)
    assert {exact.period(n).end - exact.period(n).start for n in range(200)} == {timedelta(hours=36)}


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("2026-01-05", "the first period ends on 2026-01-12"),
        ("2020-01-01", "ends on 2026-01-12; for one of an earlier horizon call the file as it was then"),
        ("2026-01-20", "periods end on 2026-01-19 and on 2026-01-26"),
        ("2026-06-01", "the last of the 5 periods of its horizon ends on 2026-02-09: decide on the next horizon"),
    ],
)
def test_other_ends_are_refused_with_those_there_are(end: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schedule("week", horizon=5).number(datetime.fromisoformat(end).replace(tzinfo=UTC))
