"""Every field of a cost in everything that composes costs: a field that is dropped, halved or taken for another falls.

A table of compositions, each with what it gives in plain arithmetic and the fields that this depends on. Whatever field
`Cost` has is tried in all of them, so a new one has to be placed in each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import sqrt
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest

from private_topk.pipelines.budget.accounting import Budget, Charge, heaviest, most
from private_topk.pipelines.budget.composition import Total, rounded_down, share_under
from private_topk.pipelines.budget.sharing import cost_of, over_windows
from private_topk.pipelines.budget.windows import Windows
from private_topk.transforms.domain import UnknownDomain
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms import Gaussian, LimitDomain, Mechanism, Peeling, RestrictedGumbel
from private_topk.transforms.mechanisms.cost import Cost, rho_of_exponential, rho_of_pure
from private_topk.transforms.mechanisms.exact.accounting import (
    bounded_range_epsilon,
    epsilon_within,
    gaussian_epsilon,
    gaussian_scale,
    rho_within,
)
from private_topk.transforms.mechanisms.exact.reals import precision
from private_topk.transforms.mechanisms.mechanism import Guarantee
from private_topk.transforms.mechanisms.noisy_counts import CountBudget
from private_topk.transforms.mechanisms.restricted import RestrictedMechanism, rho_of_tests
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period
from tests.pipelines.budget.support import DAY, START

FIELDS = {field.name for field in fields(Cost)}
TINY = Fraction(1, 10**9)
E, D, R, Z, B = Fraction(3, 2), 40 * TINY, Fraction(1, 50), 16 * TINY, Fraction(5, 4)
NOISE = Cost(E, D, R, Z, bounded_range=B)
NORMAL = replace(NOISE, gdp=True)
ADDING = Cost(E, D, R, D, bounded_range=B)
OTHER = Cost(Fraction(1, 7), TINY, Fraction(1, 90), TINY / 3, bounded_range=Fraction(1, 9), gdp=True)

TOTAL, KEPT = Total(Fraction(2), 1000 * TINY, 400 * TINY), 400 * TINY
BUDGET = Budget("plays", "user", TOTAL)
RHO = rho_within(Fraction(2), 600 * TINY)
SEVERAL = Windows.of(Period(START, START + 3 * DAY, DAY))


def changed(cost: Cost, name: str) -> Cost:
    """With another value of a field: half of it."""
    value = getattr(cost, name)
    return replace(cost, **{name: not value if isinstance(value, bool) else value / 2})


class Composition(NamedTuple):
    """What composes a cost, what it gives of that, and the fields that matter to it."""

    of: Callable[[Cost], Any]
    cost: Cost
    given: Any
    matter: set[str]


def shared(accounting: str) -> Callable[[Cost], tuple[float, float]]:
    """The epsilon and delta of one of 30 windows whose cost has these rates."""

    def share(rates: Cost) -> tuple[float, float]:
        def price(epsilon: Fraction, delta: Fraction) -> Cost:
            return Cost(
                epsilon,
                delta * rates.delta,
                rates.rho * epsilon**2,
                delta * rates.zcdp_delta,
                bounded_range=rates.bounded_range * epsilon,
                gdp=rates.gdp,
            )

        found = share_under(accounting, price, Total(Fraction(2), Fraction(1, 10**6)), 30)
        return (0.0, 0.0) if found is None else (float(found.epsilon), float(found.delta))

    return share


RATES = Cost(Fraction(1), Fraction(1), Fraction(1, 5), Fraction(1, 4), bounded_range=Fraction(3, 2), gdp=True)
HALF = Fraction(1, 2 * 10**6)
SPREAD = sqrt(rho_within(Fraction(2), HALF) / 30 / RATES.rho)
AS_NORMAL = sqrt(1 / (2 * gaussian_scale(Fraction(2), HALF, Fraction(1)) ** 2) / 30 / RATES.rho)
RANGED = shared("bounded-range")(RATES)[0]
SUMS = {"epsilon", "delta", "rho", "zcdp_delta", "gdp"}

COMPOSITIONS = {
    "sum": Composition(
        lambda cost: Cost.sum([(3, cost), (2, OTHER)]),
        NORMAL,
        Cost(
            3 * E + Fraction(2, 7), 3 * D + 2 * TINY, 3 * R + Fraction(2, 90), 3 * Z + Fraction(2, 3) * TINY, gdp=True
        ),
        SUMS,
    ),
    "two": Composition(
        lambda cost: OTHER + cost, NOISE, Cost(E + Fraction(1, 7), D + TINY, R + Fraction(1, 90), Z + TINY / 3), SUMS
    ),
    "the same again": Composition(lambda cost: 5 * cost, NORMAL, Cost(5 * E, 5 * D, 5 * R, 5 * Z, gdp=True), SUMS),
    "readings": Composition(Cost.readings, NOISE, [NOISE, Cost(E, D)], FIELDS),
    "reading": Composition(Cost.readings, ADDING, [ADDING], FIELDS),
    "windows that add up": Composition(
        lambda cost: over_windows(2 * cost, cost.delta),
        replace(NOISE, rho=Fraction(9)),
        (2 * E, 2 * D),
        {"epsilon", "delta"},
    ),
    "many windows": Composition(
        lambda cost: over_windows(50 * cost, cost.delta),
        replace(NOISE, delta=50 * D),
        (epsilon_within(50 * R, 50 * D), 50 * D + 50 * Z),
        {"delta", "rho", "zcdp_delta", "gdp"},
    ),
    "many normal windows": Composition(
        lambda cost: over_windows(50 * cost, cost.delta),
        replace(NORMAL, delta=50 * D),
        (gaussian_epsilon(50 * R, 50 * D), 50 * D + 50 * Z),
        {"delta", "rho", "zcdp_delta", "gdp"},
    ),
    "many windows of a small delta": Composition(
        lambda cost: over_windows(5 * cost, cost.delta),
        replace(NOISE, epsilon=Fraction(9)),
        (epsilon_within(5 * R, Fraction(1, 10**6)), Fraction(1, 10**6) + 5 * Z),
        {"rho", "zcdp_delta", "gdp"},
    ),
    "a share by adding up": Composition(
        shared("basic"), RATES, (float(rounded_down(Fraction(2, 30))), float(rounded_down(HALF / 15))), set()
    ),
    "a share by zCDP": Composition(
        shared("zcdp"), RATES, (SPREAD, float(rounded_down(HALF / 30 * 4))), {"delta", "rho", "zcdp_delta"}
    ),
    "a share of normal windows": Composition(
        shared("gaussian"),
        RATES,
        (AS_NORMAL, float(rounded_down(HALF / 30 * 4))),
        {"delta", "rho", "zcdp_delta", "gdp"},
    ),
    "a share of exponential windows": Composition(
        shared("bounded-range"), RATES, (RANGED, float(rounded_down(HALF / 30))), {"bounded_range"}
    ),
    "what is used, by epsilon": Composition(
        BUDGET.binding, replace(ADDING, rho=Fraction(9)), (E / 2, "epsilon"), {"epsilon", "delta", "zcdp_delta"}
    ),
    "what is used, by rho": Composition(BUDGET.binding, NOISE, (R / RHO, "rho"), {"rho"}),
    "what is used, by delta": Composition(
        BUDGET.binding,
        replace(NOISE, delta=KEPT, rho=R / 9, zcdp_delta=KEPT * 3 / 4),
        (Fraction(3, 4), "delta"),
        {"zcdp_delta"},
    ),
    "one guarantee, by epsilon": Composition(
        lambda cost: BUDGET.guarantee(cost),
        replace(ADDING, rho=Fraction(9)),
        Total(E, D),
        {"epsilon", "delta", "zcdp_delta"},
    ),
    "one guarantee, by rho": Composition(
        lambda cost: BUDGET.guarantee(cost),
        NOISE,
        Total(epsilon_within(R, 600 * TINY), 600 * TINY + Z),
        {"rho", "zcdp_delta"},
    ),
    "what is left, by epsilon": Composition(
        lambda cost: BUDGET.left(cost, 4),
        replace(ADDING, epsilon=Fraction(1, 8), rho=RHO),
        Cost((2 - Fraction(1, 8)) / 4, (KEPT - D) / 4, Fraction(0), (KEPT - D) / 4),
        {"epsilon", "delta", "rho", "zcdp_delta"},
    ),
    "the heaviest user": Composition(
        lambda cost: Cost.sum(heaviest(BUDGET, [Charge(SEVERAL, cost), Charge(SEVERAL, OTHER, 2)])),
        NORMAL,
        Cost.sum([(3, NORMAL), (2, OTHER)]),
        SUMS,
    ),
    "the most of every sum": Composition(
        lambda cost: most("user-window", [Charge(SEVERAL, cost)]), NORMAL, replace(NORMAL, bounded_range=None), SUMS
    ),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_a_composition_gives_what_its_arithmetic_does_and_by_every_field(name: str) -> None:
    composition = COMPOSITIONS[name]
    found = composition.of(composition.cost)
    assert found == (pytest.approx(composition.given, rel=1e-12) if "share" in name else composition.given)
    assert {
        field for field in FIELDS if composition.of(changed(composition.cost, field)) != found
    } == composition.matter


def test_a_share_of_exponential_windows_fills_the_total_by_their_range() -> None:
    with precision(128):
        told = [
            float(bounded_range_epsilon(30, Fraction(3, 2) * Fraction(RANGED * off), HALF)()) for off in (1, 1.00001)
        ]
    assert told[0] <= 2 < told[1]


LIMITS = {
    "epsilons": (Cost(Fraction(2), KEPT, 2 * RHO, KEPT), {"epsilon", "delta", "zcdp_delta"}),
    "rhos": (Cost(Fraction(9), Fraction(1, 2), RHO, KEPT), {"rho", "zcdp_delta"}),
    "either": (Cost(Fraction(2), KEPT, RHO, KEPT), {"zcdp_delta"}),
}


@pytest.mark.parametrize("by", LIMITS)
def test_what_fits_is_full_in_every_field_that_counts(by: str) -> None:
    spent, limits = LIMITS[by]
    assert BUDGET.fits(spent)
    numbers = {name for name in FIELDS if isinstance(getattr(spent, name), Fraction)}
    over = {name for name in numbers if not BUDGET.fits(replace(spent, **{name: getattr(spent, name) * (1 + TINY)}))}
    assert over == limits


def test_the_most_of_every_sum_is_that_of_any_unit() -> None:
    """The largest of each field is in another window, and delta is what `zcdp_delta` leaves of it."""
    costs = [
        Cost(Fraction(3), Fraction(1, 100), Fraction(1, 10), Fraction(1, 1000)),
        Cost(Fraction(1), Fraction(2, 100), Fraction(2, 10), Fraction(1, 500)),
        Cost(Fraction(2), Fraction(1, 500), Fraction(1, 20), Fraction(1, 300)),
    ]
    days = [Windows.of(Period(START + day * DAY, START + (day + 1) * DAY)) for day in range(3)]
    charges = [Charge(day, cost) for day, cost in zip(days, costs, strict=True)]
    left = Fraction(2, 100) - Fraction(1, 500)
    assert most("user-window", charges) == Cost(Fraction(3), Fraction(1, 300) + left, Fraction(2, 10), Fraction(1, 300))


DRAWN: list[Mechanism] = [
    Gaussian(1.0, 1e-6, 3),
    Peeling(1.0),
    LimitDomain(1.0, 1e-6, max_items_per_user=3),
    RestrictedGumbel(1.0, 1e-6),
]


@pytest.mark.parametrize("mechanism", DRAWN, ids=repr)
@pytest.mark.parametrize("counts", [None, CountBudget(0.5), CountBudget(0.5, 1e-7)], ids=repr)
def test_a_window_costs_all_of_its_rankings_with_their_counts(mechanism: Mechanism, counts: CountBudget | None) -> None:
    domain = UnknownDomain() if mechanism.guarantee.domain == "unknown" else ["a", "b", "c", "d"]
    spec = TopK(2, mechanism, domain, 3, counts, groups=Groups.of(["FR", "DE", "IT"], 2))
    one = spec.mechanism.cost(2)
    parts = [one] if counts is None else [one, counts.cost()]
    found = cost_of(spec)
    for name in ("epsilon", "delta", "rho", "zcdp_delta"):
        assert getattr(found, name) == 2 * sum(getattr(part, name) for part in parts) >= 0, name
    assert found.gdp == all(part.gdp for part in parts)


@dataclass(frozen=True)
class Framework(RestrictedMechanism):
    """The framework over candidates of any cost, with a budget of its own for the tests."""

    about = RestrictedGumbel.about
    guarantee: ClassVar[Guarantee] = RestrictedGumbel.guarantee
    epsilon: float
    candidates: Cost
    delta: float = float(D)

    def inner(self, k: int) -> Any:  # noqa: ANN401 - of which the cost is asked alone
        return SimpleNamespace(cost=lambda k: self.candidates)

    def test_budget(self, k: int) -> tuple[Fraction, Fraction]:
        return E / 4, D / 8


def test_candidates_and_their_tests_add_up() -> None:
    tested = Framework(1.0, NORMAL).cost(3)
    assert tested == Cost(E + E / 4, D + D / 8, R + rho_of_tests(E / 4), Z + D / 8)


def test_what_is_known_of_any_release_leaves_out_its_whole_delta() -> None:
    cost = Cost(E, D)
    assert (cost.rho, cost.zcdp_delta, cost.adds_up) == (rho_of_pure(E), D, True)


def test_counts_cost_their_noise() -> None:
    epsilon, delta = Fraction(0.5), Fraction(1e-7)
    assert CountBudget(0.5).cost() == Cost(epsilon, Fraction(0), rho_of_pure(epsilon))
    noisy = CountBudget(0.5, 1e-7).cost()
    stated = 1 / (2 * gaussian_scale(epsilon, delta, Fraction(1)) ** 2)
    assert (noisy.epsilon, noisy.delta, noisy.zcdp_delta, noisy.gdp) == (epsilon, delta, Fraction(0), True)
    assert float(noisy.rho) == pytest.approx(float(stated), rel=1e-12)


def test_peeling_costs_its_draws() -> None:
    share = Fraction(1, 7)
    draws = Cost(5 * share, Fraction(0), 5 * rho_of_exponential(share), bounded_range=9 * share)
    assert Cost.peeled(5, share) == draws


@pytest.mark.parametrize("windows", [1, 2, 3, 4, 5])
def test_a_bounded_user_changes_as_many_windows_as_are_charged(windows: int) -> None:
    """Every bound, every user, every order of their windows, and every change of the rows within a slice of time: how
    many windows they count in before or after, and not both. Where there are windows enough, all that are charged for.
    """
    numbers = range(windows)
    for most_windows, within in itertools.product(range(1, windows + 1), range(1, windows + 1)):
        furthest = 0
        orders = itertools.permutations(numbers) if windows < 5 else [tuple(numbers), (4, 0, 3, 1, 2), (3, 4, 2, 1, 0)]
        for order in orders:
            for outside, before, after in itertools.product(
                _subsets(range(within, windows)), _subsets(range(within)), _subsets(range(within))
            ):
                kept = [
                    {*[window for window in order if window in outside | own][:most_windows]} for own in (before, after)
                ]
                furthest = max(furthest, len(kept[0] ^ kept[1]))
        days = Windows.of(Period(START, START + windows * DAY, DAY))
        charged = Charge(days, NOISE, most_windows).reached(within)
        assert furthest <= charged == min(2 * within, 2 * most_windows, windows)
        if windows >= most_windows + min(within, most_windows):
            assert furthest == charged


def _subsets(numbers: range) -> list[set[int]]:
    return [set(some) for size in range(len(numbers) + 1) for some in itertools.combinations(numbers, size)]


def test_windows_are_charged_for_as_often_as_rows_are_in_them() -> None:
    """A week's rows are in seven windows that slide by a day, and so in as many of another release of the same."""
    period = Period.of("2026-01-05", "2026-02-02", "7d", slide="1d")
    sliding, day = Windows.of(period), Windows.of(Period.of("2026-01-14", "2026-01-15"))
    budget = Budget("plays", "user-window", TOTAL)
    for bound, of_a_day, of_a_week in ((None, 7, 13), (2, 4, 4), (3, 6, 6), (5, 10, 10), (9, 14, 18)):
        charge = Charge(sliding, NOISE, bound)
        assert heaviest(budget, [charge, Charge(day, OTHER)], near=day)[0] == (of_a_week, NOISE)
        assert charge.reached(int(sliding.overlapping(*day.bounds())[0])) == of_a_day
