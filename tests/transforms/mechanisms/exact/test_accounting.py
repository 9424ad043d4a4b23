"""How far a user reaches into an order: all whole moves, and random ones of weights between 0 and 1."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from flint import arb
from scipy.stats import binom

from private_topk.transforms.mechanisms.exact import accounting
from private_topk.transforms.mechanisms.exact.accounting import (
    _ORDERS,
    about,
    at_most,
    bounded_range_divergence,
    epsilon_within,
    gaussian_delta,
    gaussian_scale,
    largest,
    per_round_epsilon,
    rho_within,
    smallest,
    squared_order_sensitivity,
)
from private_topk.transforms.mechanisms.exact.reals import ball, floor, precision
from tests.refusals import refused

BUDGETS = [(1.0, 1e-6, 100), (0.01, 1e-10, 1000), (10.0, 1e-3, 20), (0.3, 0.2, 3), (1e-6, 1e-6, 50)]


@pytest.mark.parametrize(("epsilon", "delta", "k"), BUDGETS)
def test_the_share_never_overspends_and_is_the_last_float_that_does_not(epsilon: float, delta: float, k: int) -> None:
    budget, at = Fraction(epsilon), Fraction(delta)
    share = per_round_epsilon(budget, at, k)

    def fits(share: Fraction, order: Fraction) -> bool:
        """By CKS 2020, Proposition 12, written out."""
        a, total = ball(order), k * bounded_range_divergence(order, share)
        return ((a - 1) * (total - ball(budget))).exp() * (1 - 1 / a) ** a / (a - 1) <= ball(at)

    with precision(400):
        assert k * share <= budget or any(fits(share, order) for order in _ORDERS)
        assert not any(fits(share * (1 + Fraction(1, 2**50)), order) for order in _ORDERS), "no other order has more"


@pytest.mark.parametrize("share", [1e-3, 0.1, 1.0, 8.0])
@pytest.mark.parametrize("order", [1.03125, 1.5, 2, 7, 64])
def test_no_law_of_a_bounded_range_diverges_further(share: float, order: float) -> None:
    """Laws of five outcomes whose losses differ by at most the share. The largest divergence is met, within 1e-9."""
    most = float(bounded_range_divergence(Fraction(order), Fraction(share)).mid())
    draw = np.random.default_rng(1)
    losses = draw.choice([0, 1], (20_000, 5)) * share * draw.random((20_000, 5)) ** 0.1
    there = draw.dirichlet(np.full(5, 0.3), 20_000)
    moved = there * np.exp(losses)
    losses -= np.log(moved.sum(axis=1, keepdims=True))
    told = np.log((there * np.exp(order * losses)).sum(axis=1)) / (order - 1)
    assert most / 2 < told.max() <= most * (1 + 1e-9)

    up = np.linspace(0, share, 200_001)[1:-1]
    p = -np.expm1(up - share) / -np.expm1(-share)
    pairs = np.log(p * np.exp((order - 1) * up) + (1 - p) * np.exp((order - 1) * (up - share))) / (order - 1)
    assert pairs.max() == pytest.approx(most, rel=1e-6)
    assert most < order * share**2 / 8, "what zCDP says"


@pytest.mark.parametrize(("k", "gain"), [(3, 1.05), (5, 1.16), (10, 1.07), (52, 1.01)])
def test_the_share_is_larger_than_zcdp_or_basic_composition_prove(k: int, gain: float) -> None:
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    before = max(1 / k, math.sqrt(8 * rho_within(epsilon, delta) / k))
    assert per_round_epsilon(epsilon, delta, k) > gain * before


@pytest.mark.parametrize("order", [2, 4, 10])
def test_a_delta_at_which_an_order_proves_a_rational_rho_has_an_answer(order: int) -> None:
    """Of 1/4, 27/256 and 0.0387420489 no enclosure shows on which side of a multiple the rho lies: it is one."""
    rho = rho_within(Fraction(2), delta := Fraction((order - 1) ** (order - 1), order**order))
    assert rho >= Fraction(2, order) and epsilon_within(rho, delta) <= 2


@pytest.mark.parametrize(
    ("epsilon", "delta", "k"), [(0.1, 1e-3, 10), (1.0, 1e-6, 20), (4.0, 1e-6, 50), (1.0, 0.05, 100)]
)
def test_draws_at_the_share_keep_the_budget_and_a_quarter_more_overspends(epsilon: float, delta: float, k: int) -> None:
    """The exact divergence of k draws from two items whose scores move apart by all of the share, t of it up."""

    def told(share: float) -> float:
        worst = 0.0
        for t in np.linspace(0.3, 0.7, 41) * share:
            q = (1 - math.exp(t - share)) / (math.exp(t) - math.exp(t - share))
            hits, p = np.arange(k + 1), q * math.exp(t)
            here, there = (binom.pmf(hits, k, x) for x in (p, q))
            worst = max(worst, float(np.maximum(here - math.exp(epsilon) * there, 0).sum()))
        return worst

    share = float(per_round_epsilon(Fraction(epsilon), Fraction(delta), k))
    assert told(share) <= delta < told(1.25 * share)


@pytest.mark.parametrize(
    ("epsilon", "delta", "squared"), [(1.0, 1e-6, 1), (0.01, 1e-10, 300), (10.0, 1e-3, 7), (50.0, 1e-9, 2)]
)
def test_the_gaussian_scale_never_overspends_and_is_the_least(epsilon: float, delta: float, squared: int) -> None:
    budget, most, moved = Fraction(epsilon), Fraction(delta), Fraction(squared)
    scale = gaussian_scale(budget, most, moved)
    with precision(400):
        assert gaussian_delta(budget, scale**2, moved)() <= ball(most)
        assert gaussian_delta(budget, (scale * (1 - Fraction(1, 2**50))) ** 2, moved)() > ball(most)


def test_an_impossible_budget_is_refused_with_the_remedy() -> None:
    with refused("epsilon", "no noise scale below"):
        smallest(lambda scale: False)


def test_a_tie_counts_as_overspending() -> None:
    """Where the cost equals the budget and no precision can tell, the answer is the safe one."""
    assert not at_most(lambda: arb(2).sqrt() ** 2, Fraction(2))
    assert at_most(lambda: arb(2).sqrt() ** 2, Fraction(2) + Fraction(1, 2**200))


def test_largest_and_smallest_find_the_edge() -> None:
    assert largest(lambda x: x * x <= 2, Fraction(1, 10)) == pytest.approx(math.sqrt(2), rel=2**-51)
    assert smallest(lambda x: x * x >= Fraction(1, 2000)) == pytest.approx(math.sqrt(1 / 2000), rel=2**-51)


@pytest.mark.parametrize("start", [Fraction(1, 8), Fraction(1, 10), Fraction(7, 5)])
@pytest.mark.parametrize("near", [0.0, 1e-300, 1.0, math.sqrt(2), math.sqrt(2) * (1 + 1e-15), 1.4143, 2.9, 1e300])
def test_a_guess_changes_nothing_and_a_good_one_saves_most_of_the_search(start: Fraction, near: float) -> None:
    tried: list[Fraction] = []

    def within(value: Fraction) -> bool:
        tried.append(value)
        return value * value <= 2

    assert largest(within, start, near) == largest(lambda value: value * value <= 2, start)
    assert len(tried) <= 16 or not math.isclose(near, math.sqrt(2), rel_tol=1e-14)


@pytest.mark.parametrize("wanted", [1e-9, 2.0, 1e7])
def test_about_comes_near_and_gives_up_without_a_positive_value(wanted: float) -> None:
    rising = lambda place: float(place + place**2)  # noqa: E731
    assert about(rising, wanted, Fraction(1, 8)) == pytest.approx(math.sqrt(wanted + 0.25) - 0.5, rel=1e-7)
    assert about(lambda place: 0.0, wanted, Fraction(1, 8)) == about(rising, 0.0, Fraction(1, 8)) == 0


def reach(moves: np.ndarray) -> np.ndarray:
    return (moves**2).sum(axis=1) - moves.sum(axis=1) ** 2 / moves.shape[1]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("items", "most"), [(2, 1), (3, 2), (4, 1), (5, 3), (5, 5), (6, 2)])
def test_no_move_reaches_further_and_one_does_as_far(items: int, most: int, neighbours: str) -> None:
    stated = float(squared_order_sensitivity(items, most, neighbours))
    whole = np.array(
        list(itertools.product((-1, 0, 1) if neighbours == "replace-one" else (0, 1), repeat=items)), float
    )
    few = ((whole > 0).sum(axis=1) <= most) & ((whole < 0).sum(axis=1) <= most)
    assert reach(whole[few]).max() == pytest.approx(stated)
    rng = np.random.default_rng(1)
    one, two = rng.random((2, 20_000, items)) ** rng.choice([0.02, 1, 5], (2, 20_000, items))
    one, two = (v * np.minimum(1, np.sqrt(most / (v**2).sum(axis=1)))[:, None] for v in (one, two))
    found = reach(one - two if neighbours == "replace-one" else one)
    assert found.max() <= stated * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_orders_that_floats_leave_out_would_have_changed_nothing(seed: int) -> None:
    """The best of all orders, in balls alone, is what is found; also where two orders are nearly as good."""
    rng = random.Random(seed)
    for _ in range(3):
        epsilon, delta = Fraction(10 ** rng.uniform(-3, 2)), Fraction(10 ** rng.uniform(-40, -0.5))
        best = max(floor(accounting._rho_at(order, epsilon, delta)) for order in _ORDERS)
        rho = rho_within(epsilon, delta)
        assert rho == Fraction(max(0, best), accounting._SCALE)
        if rho:
            less = [partial(_saved, order, delta, rho) for order in _ORDERS]
            assert epsilon_within(rho, delta) == Fraction(min(-floor(each) for each in less), accounting._SCALE)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_a_share_is_the_best_of_those_looked_at_in_balls_alone(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(5):
        share, delta, k = (
            Fraction(10 ** rng.uniform(-12, 1)),
            Fraction(10 ** rng.uniform(-40, -0.5)),
            rng.randint(1, 500),
        )

        def spent(place: int, given: tuple[Fraction, Fraction, int] = (share, delta, k)) -> int:
            return floor(lambda: accounting._SCALE * accounting._to_spend(_ORDERS[place], *given)())

        near = min(range(0, len(_ORDERS), 16), key=spent)
        best = min(range(max(near - 15, 0), min(near + 16, len(_ORDERS))), key=spent)
        assert accounting._best_order(share, delta, k) == _ORDERS[best]


def _saved(order: Fraction, delta: Fraction, rho: Fraction) -> arb:
    return accounting._SCALE * (accounting._slack(order, delta) - ball(order) * ball(rho))
