"""A user who is replaced leaves one ranking and enters another: both draws together, by their exact laws."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms import (
    MECHANISMS,
    Canonical,
    CdpPeeling,
    FastJoint,
    Gamma,
    Gaussian,
    Joint,
    JointSet,
    Laplace,
    LimitDomain,
    Mechanism,
    Oneshot,
    Peeling,
    PnfPeeling,
    WeightedGaussian,
    WeightedOrder,
    noise_of_counts,
)
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.count_noise import IndependentLaplace, SharedGaussian, Spread
from tests.laws import Law, hockey_stick
from tests.laws.checks import check_pair
from tests.transforms.mechanisms.own import SaysNothing
from tests.transforms.mechanisms.pair_laws import SLACK, Kind, pair_of
from tests.transforms.mechanisms.weighted_laws import law_of, sums

TYPED = [
    Peeling(1.0, "replace-one"),
    PnfPeeling(1.0, "replace-one"),
    CdpPeeling(0.3, 0.05, "replace-one"),
    Joint(1.0, 0.75, neighbours="replace-one"),
    FastJoint(2.0, 0.9, neighbours="replace-one"),
    JointSet(1.0, neighbours="replace-one"),
    Canonical(1.0, 1, neighbours="replace-one"),
    Oneshot(1.0, "laplace", neighbours="replace-one"),
    Laplace(1.0, 2, "replace-one"),
    Laplace(1.0, None, "replace-one"),
    Gaussian(0.3, 0.05, 2, "replace-one"),
    Gaussian(0.3, 0.05, None, "replace-one"),
]
CORRELATED = MECHANISMS["correlated-gaussian"]
OTHERS = (
    Gamma,  # test_noisy_order holds its two draws
    WeightedGaussian,
    WeightedOrder,
    CORRELATED,  # test_series: squared moves of all steps
)


def test_every_mechanism_whose_replacement_costs_one_draw_is_tested() -> None:
    assert {kind for kind in MECHANISMS.values() if kind.guarantee.replacement_costs_one_draw} == {
        *map(type, TYPED),
        *OTHERS,
    }


def one_way(mechanism: Mechanism, k: int, step: int) -> Iterator[tuple[Law, Law]]:
    """One user leaves, or enters, with one item, some, or as many as may be; items of two counts besides."""
    most = mechanism.parameter("max_items_per_user") or k + 1
    for moved in sorted({1, min(most, (k + 2) // 2), min(most, k + 1)}):
        there = (Kind(2, 2 + step, moved), Kind(2, 2, k + 2 - moved))
        for kinds in (there, (*there[:1], Kind(2, 2, 1), Kind(1, 1, k))) if k < 4 else (there,):
            yield pair_of(mechanism, kinds, k)


def both(one: Law, other: Law) -> Law:
    """Two draws: they share nothing, so that probabilities multiply."""
    return {(a, b): p * q for a, p in one.items() for b, q in other.items()}


def hold(mechanism: Mechanism, k: int) -> float:
    """The two draws, held to the cost of a single one. Returns the part of epsilon or delta that is used."""
    cost, used = mechanism.cost(k), 0.0
    for leaving, entering in itertools.product(one_way(mechanism, k, -1), one_way(mechanism, k, 1)):
        used = max(used, check_pair(cost, *(both(*laws) for laws in zip(leaving, entering, strict=True)), slack=SLACK))
    return used / float(cost.delta or cost.epsilon)


@pytest.mark.parametrize("mechanism", TYPED, ids=repr)
def test_leaving_one_and_entering_another_cost_one_draw(mechanism: Mechanism) -> None:
    for k in (1, 2, 5):
        hold(mechanism, k)


def test_moves_use_the_budget_and_half_of_the_noise_exceeds_it() -> None:
    """The look's power: draws calibrated to users who come or go, twice, are twice over the budget."""
    assert hold(Peeling(1.0, "replace-one"), 1) > 0.5
    assert hold(Laplace(1.0, 2, "replace-one"), 5) > 0.6
    for planted in (Peeling(1.0), Laplace(1.0, 2), Joint(1.0), Gaussian(0.3, 0.05, 2)):
        with pytest.raises(AssertionError):
            hold(planted, 2)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.2), (2.0, 0.02)])
def test_two_draws_of_weighted_gaussian_cost_one(epsilon: float, delta: float) -> None:
    """Rare items, crowds at the threshold, and every user who leaves the one and enters the other."""
    mechanism = WeightedGaussian(epsilon, delta, 2, 1, "replace-one")
    near, rare = round(mechanism.threshold() / 2**16), mechanism.tau() >> 16
    users = [u for n in (1, 2) for u in itertools.combinations(range(2), n)]
    worst = 0.0
    for crowds in itertools.product([(near, near), (0, 0), (near, rare)], repeat=2):
        others = [tuple((item,) for item, n in enumerate(crowd) for _ in range(n)) for crowd in crowds]
        bare, other_bare = (law_of(mechanism, sums(some, 2, 1), 2) for some in others)
        for mine, yours in itertools.product(users, repeat=2):
            left, entered = (
                law_of(mechanism, sums((*some, its), 2, 1), 2) for some, its in zip(others, (mine, yours), strict=True)
            )
            here, there = both(left, other_bare), both(bare, entered)
            worst = max(worst, *(hockey_stick(*order, epsilon) for order in ((here, there), (there, here))))
    assert 0.2 * delta < worst <= delta


def test_two_draws_of_a_weighted_order_cost_one() -> None:
    """Squared distances of independent draws add up: of one who comes and one who goes, to a replacement."""
    for d, whole in itertools.product((2, 3, 5, 8, 100), (1, 2, 5, 60)):
        once, swapped = (WeightedOrder(1.0, 1e-3, 99, whole, relation) for relation in ("add-remove", "replace-one"))
        assert 2 * once.squared_sensitivity(d) <= swapped.squared_sensitivity(d)


def test_a_mechanism_without_a_stated_move_pays_for_both_rankings() -> None:
    assert (
        SaysNothing(1.0, neighbours="replace-one").rankings_moved(3)
        == 6
        == LimitDomain(1.0, 1e-6, neighbours="replace-one").rankings_moved(3)
    )
    assert SaysNothing(1.0).rankings_moved(3) == 3 == Peeling(1.0, "replace-one").rankings_moved(3)


EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
SIZES = [(1, None), (5, None), (5, 1), (5, 3), (7, 4)]


@pytest.mark.parametrize(("size", "limit"), SIZES)
def test_noise_of_counts_covers_both(size: int, limit: int | None) -> None:
    """Gaussian: squared lengths of a way out and a way in add up, and so they do to what a replacement may have."""
    noise = noise_of_counts(size, EPSILON, DELTA, limit, "replace-one", 1, True)
    assert isinstance(noise, SharedGaussian)
    inverse = np.linalg.inv(float(noise.own) * np.eye(size) + float(noise.shared))
    moves = np.array(list(itertools.product((-1, 0, 1), repeat=size)))
    up, down = (moves > 0).sum(axis=1), (moves < 0).sum(axis=1)
    lengths = np.einsum("ij,jk,ik->i", moves, inverse, moves)
    within = lengths[(up <= (limit or size)) & (down <= (limit or size))].max()
    between = 2 * lengths[(up <= (limit or size)) & (down == 0)].max()
    allowed = 1 / float(gaussian_scale(EPSILON, DELTA, Fraction(1))) ** 2
    assert max(within, between) == pytest.approx(allowed, rel=1e-9), "and the budget is used up"
    plain = noise_of_counts(size, EPSILON, DELTA, limit, "replace-one")
    assert plain.variance() <= noise.variance() <= plain.variance() * Fraction(size + 1, size)


@pytest.mark.parametrize("limit", [None, 1, 3])
def test_pure_noise_of_counts_is_that_of_half_the_budget(limit: int | None) -> None:
    """One who comes or goes costs a half, whatever the noise: two are a replacement, in one ranking or in two."""
    for size in (1, 4, 40):
        noise = noise_of_counts(size, EPSILON, None, limit, "replace-one", 3, True)
        assert noise == noise_of_counts(size, EPSILON / 2, None, limit, "add-remove", 3)
        held = min(size, limit or size)
        assert isinstance(noise, IndependentLaplace | Spread)
        rate = held / noise.scale if isinstance(noise, IndependentLaplace) else noise.rate
        assert 3 * rate == EPSILON / 2
    assert noise_of_counts(9, EPSILON, None, 3, "add-remove", 1, True) == noise_of_counts(9, EPSILON, None, 3)
