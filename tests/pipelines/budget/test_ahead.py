"""What a ledger says will fit is what it then lets through, whichever reading of a cost each charge takes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from private_topk.pipelines.budget.accounting import HORIZON, Budget
from private_topk.pipelines.budget.ahead import Ahead, ahead_of, beside_others, enough, reports_ahead
from private_topk.pipelines.budget.ledger import Ledger, Request
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.windows import utc_text
from tests.pipelines.budget.support import DAY, MONDAY, goes, request, weeks

WEEK = 7 * DAY
DELTA = Fraction(1, 10**6)


def week(report: str, number: int, horizon: int, cost: Cost, first: int = 0) -> Request:
    """A period of a report, the first of whose horizon is another week than that of others."""
    start = MONDAY + first * WEEK
    ends = {"start": utc_text(start), "end": utc_text(start + horizon * WEEK)}
    asked = {"mechanism": "joint", "asked": {"horizon": horizon, HORIZON: ends}}
    windows = weeks(1, first + number)
    return request(f"{report}/{number}", parameters=asked, cost=cost, windows=windows, unit="user")


def some_cost(state: np.random.RandomState) -> Cost:
    """Pure; with Gaussian noise beside it, which has two readings; or over an unknown domain, of which one needs less
    delta than the other.
    """
    ranking = Cost.peeled(10, Fraction(int(state.randint(1, 30)), 200))
    counts = Cost.gaussian(Fraction(int(state.randint(1, 30)), 20), DELTA / int(state.choice([1, 10, 30])))
    slots = Cost(Fraction(1, 2), DELTA / 10, Fraction(1, 50), DELTA / 50)
    return [ranking, ranking + counts, counts, slots][state.choice(4, p=[0.1, 0.5, 0.3, 0.1])]


def opened(path: Path, epsilon: float, tried: Fraction) -> tuple[Ledger, Budget]:
    """A ledger with a pure first try, which counts as it adds up and by its rho."""
    ledger = Ledger(f"sqlite:///{path}")
    ledger.create(Budget.of("plays", epsilon, 2 * DELTA, unit="user"))
    ledger.charge(request("try", cost=Cost(min(tried, Fraction(epsilon))), unit="user"))
    return ledger, ledger.read().budgets[0]


def about_enough(state: np.random.RandomState, tried: Fraction, *reports: tuple[int, Cost]) -> float:
    """An epsilon at which they all fit by one reading of their costs, or lack a little."""
    large = Budget.of("plays", 1000, 2 * DELTA, unit="user")
    ends = [Cost.sum([(1, Cost(tried)), *((left, cost.readings()[end]) for left, cost in reports)]) for end in (0, -1)]
    return float(min(large.guarantee(end).epsilon for end in ends)) * state.uniform(0.8, 1.1)


@pytest.mark.parametrize("seed", range(24))
def test_so_many_periods_are_charged_as_were_forecast(seed: int, tmp_path: Path) -> None:
    state = np.random.RandomState(seed)
    cost, horizon, tried = some_cost(state), int(state.randint(2, 9)), Fraction(int(state.randint(1, 20)), 10)
    ledger, budget = opened(tmp_path / "budget.db", about_enough(state, tried, (horizon, cost)), tried)

    def ahead_in(ledger: Ledger, budget: Budget) -> Ahead:
        readings = [each for each in cost.readings() if budget.fits(each)] or [cost]
        return ahead_of(budget, ledger.read(), horizon, horizon, readings)

    forecast = ahead_in(ledger, budget)
    if total := enough(budget, ledger.read(), forecast, "weekly"):
        other, larger = opened(tmp_path / "other.db", float(total.removeprefix("epsilon ")) * (1 + 1e-9), tried)
        assert ahead_in(other, larger).fitting == horizon
    for number in range(horizon):
        went = goes(ledger, week("weekly", number, horizon, cost))
        assert went == (number < forecast.fitting)
        if went and number + 1 < horizon:
            [(_, _, left)] = reports_ahead(budget, ledger.read())
            assert (left.left, left.fitting) == (horizon - number - 1, forecast.fitting - number - 1)


@pytest.mark.parametrize("seed", range(12))
def test_reports_that_fit_together_are_charged_in_any_order(seed: int, tmp_path: Path) -> None:
    state = np.random.RandomState(seed)
    for attempt in itertools.count():
        costs, tried = (some_cost(state), some_cost(state)), Fraction(int(state.randint(1, 20)), 10)
        horizons = [int(state.randint(2, 6)) for _ in range(2)]
        epsilon = about_enough(state, tried, *zip(horizons, costs, strict=True))
        ledger, budget = opened(tmp_path / f"{attempt}.db", epsilon, tried)
        if not goes(ledger, week("one", 0, horizons[0], costs[0])):
            continue
        own = ahead_of(budget, ledger.read(), horizons[1], horizons[1], costs[1].readings())
        told = beside_others(budget, ledger.read(), own, "two", " remain")
        if told.startswith("fits: with all periods of all reports"):
            break
    rest = [(0, number) for number in range(1, horizons[0])] + [(1, number) for number in range(horizons[1])]
    for report, number in state.permutation(rest):
        assert goes(ledger, week(("one", "two")[report], int(number), horizons[report], costs[report])), told


def test_a_correction_by_the_file_of_an_earlier_horizon_begins_none(tmp_path: Path) -> None:
    ledger, cost = Ledger(f"sqlite:///{tmp_path}/budget.db"), Cost(Fraction(1, 10))
    ledger.create(Budget.of("plays", 2, unit="user"))
    later = [replace(week("weekly", each, 5, cost, first=10), release_id=f"weekly/{10 + each}") for each in (0, 1)]
    again = replace(week("weekly", 0, 2, cost), release_id="weekly/0/correction/1")
    for asked in (week("weekly", 0, 2, cost), week("weekly", 1, 2, cost), *later, again):
        ledger.charge(asked)
        books = ledger.read()
    [(_, newest, ahead)] = reports_ahead(books.budgets[0], books)
    assert (newest.release_id, ahead.left, ahead.horizon) == (again.release_id, 3, 5)
