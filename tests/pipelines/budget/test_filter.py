"""Whichever sum fits: the proof in `Budget` by enumerating histories, and the case that it has to leave out."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from private_topk.pipelines.budget.accounting import Budget
from private_topk.pipelines.budget.composition import Total, rho_within
from private_topk.transforms.mechanisms.cost import Cost
from tests.transforms.mechanisms.laws import delta_of

NORMAL = NormalDist()


def gaussian_at(epsilon: float, delta: float) -> float:
    low, high = 1e-3, 10.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(1, epsilon, middle) <= delta else (low, middle)
    return low


def test_going_on_by_epsilons_after_a_tail_and_by_rhos_otherwise_spends_delta_twice() -> None:
    """Why Gaussian noise is charged by one reading. Both ways fit both sums, each by itself; together they cost 1.78
    times the delta that was promised.

    First Gaussian noise, (1, 0.0009)-DP. If its loss came out above 1, which costs 0.0009 at epsilon 1, go on with
    randomised response of epsilon 5: epsilons add up to 6. Otherwise tell all with probability 0.0009: rhos are small.
    """
    epsilon, delta, kept = 6, Fraction("1e-3"), Fraction("9e-4")
    mu = gaussian_at(1, float(kept))
    noise = Cost(Fraction(1), kept, Fraction(mu) ** 2 / 2)
    response, telling = Cost(Fraction(5), Fraction(0)), Cost(Fraction(0), kept)

    tail, tail_there = NORMAL.cdf(mu / 2 - 1 / mu), NORMAL.cdf(-mu / 2 - 1 / mu)
    truth = math.exp(5) / (1 + math.exp(5))
    after_tail = tail * truth - math.exp(epsilon) * tail_there * (1 - truth)
    otherwise = (1 - tail) * float(kept)
    assert after_tail + otherwise > 1.75 * delta, "what the two ways cost together, exactly"

    budget = Budget("plays", "user", Total(Fraction(epsilon), delta, kept))
    assert noise.epsilon + response.epsilon <= epsilon and noise.delta + response.delta <= kept
    assert noise.rho + telling.rho <= budget.rho and noise.zcdp_delta + telling.zcdp_delta <= kept
    assert len(noise.readings()) == 2
    for reading in noise.readings():
        assert budget.fits(Cost.sum([(1, reading)]))
        ways = [budget.fits(Cost.sum([(1, reading), (1, other)])) for other in (response, telling)]
        assert ways in ([True, False], [False, True]), "one way is left, whichever reading was written down"


def outcomes(epsilon: float, delta: float) -> list[tuple[float, float]]:
    """Probabilities under a dataset and its neighbour: randomised response, after telling all with probability delta.

    No (epsilon, delta)-DP release loses more (Kairouz, Oh & Viswanath 2015, Theorem 3.3).
    """
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    honest = [((1 - delta) * truth, (1 - delta) * (1 - truth)), ((1 - delta) * (1 - truth), (1 - delta) * truth)]
    return [*honest, *([(delta, 0.0), (0.0, delta)] if delta else [])]


def hockey_stick(
    budget: Budget, state: np.random.RandomState, spent: list, mass: tuple[float, float], deep: int
) -> float:
    """The exact cost, at the budget's epsilon, of an adversary who chooses each release by the answers so far."""
    lost = max(mass[0] - math.exp(budget.total.epsilon) * mass[1], 0.0)
    if deep == 0 or lost == mass[0]:
        return lost
    sizes = [Fraction(n, 8) * budget.total.epsilon / 2 for n in range(1, 9)]
    deltas = [budget.kept * n / 4 for n in range(5)]
    for _ in range(4):
        cost = Cost(sizes[state.randint(8)], deltas[state.randint(5)])
        if budget.fits(Cost.sum([(1, one) for one in [*spent, cost]])):
            return sum(
                hockey_stick(budget, state, [*spent, cost], (mass[0] * p, mass[1] * q), deep - 1)
                for p, q in outcomes(float(cost.epsilon), float(cost.delta))
            )
    return lost


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0"), ("1", "0.1"), ("4", "0.02"), ("8", "0.3")])
def test_no_adversary_of_many_costs_more_than_the_budget(epsilon: str, delta: str) -> None:
    """Mixed pure and approximate releases, chosen by the answers before them, some histories by either sum."""
    budget = Budget("plays", "user", Total(Fraction(epsilon), Fraction(delta), Fraction(delta) / 2))
    costs = [hockey_stick(budget, np.random.RandomState(seed), [], (1.0, 1.0), 5) for seed in range(60)]
    assert max(costs) <= budget.total.delta + 1e-12
    assert not budget.total.delta or max(costs) > budget.total.delta / 4, "or this means nothing"


def test_pure_releases_fit_by_the_better_sum_and_others_by_rho() -> None:
    budget = Budget("plays", "user", Total(Fraction(1), Fraction("1e-6"), Fraction("5e-7")))
    assert budget.rho == rho_within(Fraction(1), Fraction("5e-7"))
    large, small = Cost(Fraction(1), Fraction(0)), Cost(Fraction(1, 20), Fraction(0), Fraction(1, 3200))
    assert budget.fits(Cost.sum([(1, large)])) and not budget.fits(Cost.sum([(2, large)]))
    assert budget.fits(Cost.sum([(70, small)])) and not budget.fits(Cost.sum([(80, small)]))
    noise = Cost(Fraction(1, 2), Fraction("1e-8"), Fraction(1, 1000))
    assert budget.fits(Cost.sum([(5, noise)])) and not budget.fits(Cost.sum([(1, noise), (1, large)]))
    assert budget.fits(Cost.sum([(1, noise.readings()[1])])), "by its epsilon and delta"
    assert not budget.fits(Cost.sum([(1, noise.readings()[1]), (1, large)]))
