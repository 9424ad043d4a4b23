"""Windows in a ledger: what is stored, and overlaps against counting pairs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from private_topk.pipelines.budget.accounting import Budget, Charge, heaviest
from private_topk.pipelines.budget.composition import Total
from private_topk.pipelines.budget.windows import Windows
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.windows import CalendarWindows, Period, microseconds
from tests.pipelines.budget.support import DAY, START, some_period


def pairs(one: Windows, other: Windows) -> list[int]:
    """How many windows of the one overlap each of the other's: by looking at every pair."""
    ours = list(zip(*(edge.tolist() for edge in one.bounds()), strict=True))
    theirs = zip(*(edge.tolist() for edge in other.bounds()), strict=True)
    return [sum(start < end_ and start_ < end for start, end in ours) for start_, end_ in theirs]


@pytest.mark.parametrize("seed", range(100))
def test_overlaps_are_those_of_all_pairs(seed: int) -> None:
    state = np.random.RandomState(seed)
    one, other = Windows.of(some_period(state)), Windows.of(some_period(state))
    assert one.overlapping(*other.bounds()).tolist() == pairs(one, other)
    assert other.overlapping(*one.bounds()).tolist() == pairs(other, one)


@pytest.mark.parametrize("seed", range(40))
def test_the_heaviest_window_is_that_of_all_pairs(seed: int) -> None:
    """Charges of any kinds: what the window costs that has spent most, by adding up every pair that overlaps."""
    state = np.random.RandomState(1000 + seed)
    charges = [
        Charge(Windows.of(some_period(state)), Cost(Fraction(int(state.randint(1, 9)), 8), Fraction(0)))
        for _ in range(4)
    ]
    budget = Budget("plays", "user-window", Total(Fraction(1000)))
    spent = Cost.sum(heaviest(budget, charges)).epsilon
    sums = [
        sum(count * charge.cost.epsilon for count, charge in zip(counts, charges, strict=True))
        for unit in charges
        for counts in zip(*(pairs(charge.windows, unit.windows) for charge in charges), strict=True)
    ]
    assert spent == max(sums)


@pytest.mark.parametrize("seed", range(60))
def test_a_period_s_overlap_bounds_that_of_each_window_and_is_reached(seed: int) -> None:
    period = some_period(np.random.RandomState(2000 + seed))
    if period is None:
        return
    windows = Windows.of(period)
    reached = max(pairs(windows, windows))
    most = period.overlap
    assert reached <= most and (reached == most or most > len(period) // 2)
    assert windows.number == len(period) == len(period.starts)


@pytest.mark.parametrize("seed", range(40))
def test_windows_read_back_as_written(seed: int) -> None:
    windows = Windows.of(some_period(np.random.RandomState(3000 + seed)))
    assert Windows.read(json.dumps(windows.plain())) == windows


def test_regular_windows_keep_their_stored_form() -> None:
    """So that the rows of a ledger made before calendars were known are read, and their repeats recognised."""
    week = 7 * 86_400_000_000
    monday = microseconds(datetime(2026, 1, 5, tzinfo=UTC))
    weeks = Windows.of(Period(datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 2, 2, tzinfo=UTC), 7 * DAY))
    assert weeks.plain() == [monday, monday + 4 * week, week, week, 4]
    assert Windows.of(None).plain() == [-(1 << 61), 1 << 61, 1 << 62, 1 << 62, 1]
    cut_short = Windows.of(Period(START, START + 10 * DAY, 7 * DAY))
    assert cut_short.plain() == [microseconds(START), microseconds(START + 10 * DAY), week, week, 2]
    days = Windows.of(Period(START, START + 10 * DAY, CalendarWindows("day")))
    assert days == Windows.of(Period(START, START + 10 * DAY, DAY)), "in UTC a day is a day"


def test_a_calendar_is_written_by_its_moments() -> None:
    """A later edition of the time zone database changes nothing of a charge: no zone is looked up again."""
    berlin = ZoneInfo("Europe/Berlin")
    year = Period(
        datetime(2026, 1, 1, tzinfo=berlin),
        datetime(2027, 1, 1, tzinfo=berlin),
        CalendarWindows("day", "Europe/Berlin"),
    )
    windows = Windows.of(year)
    hour = 3_600_000_000
    assert [(run.size // hour, run.number) for run in windows.runs] == [(24, 87), (23, 1), (24, 209), (25, 1), (24, 67)]
    said = "365 windows of 23:00:00 to 1 day, 1:00:00, 2025-12-31 23:00:00 to 2026-12-31 23:00:00 UTC"
    assert windows.summary() == said
    assert np.array_equal(windows.bounds()[0], year.starts) and np.array_equal(windows.bounds()[1], year.ends)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "[[]]", "[1,2,3,4]", "[0,10,0,1,1]", "[0,10,1,0,1]", "[9,0,1,1,1]", "[0,10,1,1,0]"),
        *("[0.0,10,1,1,1]", "[[0,10,1,1,1],3]", "null", '["a",1,2,3,4]'),
    ],
)
def test_a_text_that_holds_no_windows_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Windows.read(text)
