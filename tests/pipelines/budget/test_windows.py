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
from private_topk.pipelines.budget.ledger import Request
from private_topk.pipelines.budget.windows import Windows
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import CdpPeeling, Gaussian, Joint
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.metric import Risers
from private_topk.transforms.windows import CalendarWindows, Period, microseconds
from tests.pipelines.budget.support import DAY, START, some_period

ONE_DAY = Period(START, START + DAY)


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


@pytest.mark.parametrize("seed", range(40))
def test_risers_cost_what_their_windows_do_by_parts(seed: int) -> None:
    """Whichever windows: for every pair, and every other window, the parts of all that it overlaps are added up."""
    state = np.random.RandomState(4000 + seed)
    period, weight = some_period(state), Fraction(int(state.randint(4)), 3)
    try:
        reads, other = Risers(weight).input_period(period or ONE_DAY), Windows.of(some_period(state))
    except InvalidArgument:
        return  # sliding windows
    last, nothing = len(reads) - 1, Cost(Fraction(0), Fraction(0), Fraction(0))
    parameters, total = {"against": Risers(weight).describe()}, Total(Fraction(99), Fraction(1, 2))
    for mechanism, part in ((Joint(1.0), weight), (CdpPeeling(1.0, 1e-6), weight), (Gaussian(1.0, 1e-6), weight**2)):
        cost = mechanism.cost(1)
        charge = Request("d", "user-window", "r", "", "", parameters, Windows.pairs(reads), cost).entry()
        edges = [edge.tolist() for edge in Windows.of(reads).bounds()]
        sums = [
            sum(
                (part * (n < last) + (n > 0)) / (1 + part)
                for n, (a, b) in enumerate(zip(*edges, strict=True))
                if a < end and start < b
            )
            for unit in (charge.windows, other)
            for start, end in zip(*(e.tolist() for e in unit.bounds()), strict=True)
        ]
        units = (np.concatenate(both) for both in zip(charge.windows.bounds(), other.bounds(), strict=True))
        assert [charge.reached(parts) for parts in charge.overlapping(*units).tolist()] == sums
        spent = Cost.sum(heaviest(Budget("d", "user-window", total), [charge, Charge(other, nothing)]))
        assert spent.rho == max(sums) * cost.rho >= cost.rho
        assert Cost.sum(heaviest(Budget("d", "user", total), [charge])).rho == last * cost.rho


def test_risers_that_cost_a_rest_have_no_parts() -> None:
    """Over an unknown domain an item may come out that one of two neighbours alone has: no part of that is proved."""
    pairs = Windows.pairs(Period(START, START + 3 * DAY, DAY))
    stretch = Windows.of(Period(START, START + DAY)).bounds()
    for rest, paid in ((Fraction(0), Fraction(1, 3)), (Fraction(1, 10**7), 1)):
        charge = Charge(pairs, Cost(Fraction(1), Fraction(1, 10**6), Fraction(1, 8), rest), weight=Fraction(1, 2))
        assert [charge.reached(number) for number in charge.overlapping(*stretch).tolist()] == [paid]


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
    assert windows.summary() == "365 windows of 23:00:00 to 1 day, 1:00:00, 2025-12-31 23:00:00 to 2026-12-31 23:00:00"
    assert np.array_equal(windows.bounds()[0], year.starts) and np.array_equal(windows.bounds()[1], year.ends)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[[]]",
        "[1,2,3,4]",
        "[0,10,0,1,1]",
        "[0,10,1,0,1]",
        "[9,0,1,1,1]",
        "[0,10,1,1,0]",
        "[0.0,10,1,1,1]",
        "[[0,10,1,1,1],3]",
        "null",
        '["a",1,2,3,4]',
    ],
)
def test_a_text_that_holds_no_windows_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Windows.read(text)
