"""Clopper-Pearson against scipy's quantiles, and that no bound of epsilon is wrong more often than it may be."""

from __future__ import annotations

import math

import pytest
from scipy.special import betaincinv

from private_topk.transforms.testing.audit.estimate import (
    Tally,
    epsilon_at_least,
    epsilon_of,
    probability_at_least,
    probability_at_most,
)


def chance(numbers: tuple[int, ...], chances: tuple[float, ...]) -> float:
    """That so many of some draws come out each way: the multinomial law."""
    ways = math.factorial(sum(numbers)) // math.prod(map(math.factorial, numbers))
    return ways * math.prod(p**n for n, p in zip(numbers, chances, strict=True))


@pytest.mark.parametrize("seen", [Tally(0, 50), Tally(1, 50), Tally(25, 50), Tally(50, 50), Tally(3, 4000)])
@pytest.mark.parametrize("risk", [0.05, 1e-6])
def test_bounds_are_quantiles_and_err_to_the_safe_side(seen: Tally, risk: float) -> None:
    hits, draws = seen
    low = betaincinv(hits, draws - hits + 1, risk) if hits else 0.0
    high = betaincinv(hits + 1, draws - hits, 1 - risk) if hits < draws else 1.0
    assert low - 1e-9 <= probability_at_least(seen, risk) <= low + 1e-12
    assert high - 1e-12 <= probability_at_most(seen, risk) <= high + 1e-9


def test_the_bound_of_events_is_wrong_at_most_as_often_as_said() -> None:
    """Enumerated, not sampled: every pair of tallies of 12 draws with its probability, where epsilon and delta fit."""
    draws, risk, epsilon, delta = 12, 0.1, 1.0, 0.05
    for seldom in (0.05, 0.2, 0.3):
        often = min(math.exp(epsilon) * seldom + delta, 1.0)
        wrong = sum(
            chance((i, draws - i), (often, 1 - often)) * chance((j, draws - j), (seldom, 1 - seldom))
            for i in range(draws + 1)
            for j in range(draws + 1)
            if epsilon_at_least(Tally(i, draws), Tally(j, draws), delta, risk) > epsilon
        )
        assert wrong <= risk, (seldom, wrong)


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_the_bound_of_guesses_is_wrong_at_most_as_often_as_said(delta: float) -> None:
    """Enumerated: every number of right, wrong and missing guesses of 24 draws, where epsilon and delta fit exactly."""
    draws, risk, epsilon = 24, 0.1, 1.0
    for wrong_one in (0.02, 0.1, 0.25):
        right_one = min(math.exp(epsilon) * wrong_one + delta, 1 - wrong_one)
        found = sum(
            chance((right, wrong, draws - right - wrong), (right_one, wrong_one, 1 - right_one - wrong_one))
            for right in range(draws + 1)
            for wrong in range(draws + 1 - right)
            if epsilon_of(right, wrong, draws, delta, risk) > epsilon
        )
        assert found <= risk, (wrong_one, found)


def test_what_is_certain_shows_without_end_and_what_delta_explains_not_at_all() -> None:
    found = [epsilon_at_least(Tally(n, n), Tally(0, n), 0.01, 1e-6) for n in (100, 1000, 10_000)]
    assert found[0] < found[1] < found[2] > 6 and epsilon_of(1000, 0, 1000, 0.0, 1e-6) > 4
    assert epsilon_at_least(Tally(5, 1000), Tally(0, 1000), 0.01, 1e-6) == 0
    for delta in (0.0, 0.01):
        assert epsilon_of(0, 0, 50, delta, 0.1) == 0 == epsilon_of(0, 40, 50, delta, 0.1)


@pytest.mark.parametrize(
    ("declared", "draws", "seen"),
    [(2.0, 500, 2.72), (2.0, 1000, 2.48), (2.0, 2000, 2.33), (2.0, 5000, 2.22),
     (1.25, 500, 1.78), (1.25, 1000, 1.6), (1.25, 2000, 1.5), (1.25, 5000, 1.41)],
)  # fmt: skip
def test_the_least_loss_that_so_many_draws_show(declared: float, draws: int, seen: float) -> None:
    """docs/audit.md has these: in an audit of all mechanisms, of an answer that tells by its odds whether one user is
    there, when it comes as often as is expected of it. Three fifths of the draws test it.
    """
    tested, risk = 2 * round(0.6 * draws), 1e-3 / 361

    def shown(loss: float) -> bool:
        right = round(tested / (1 + math.exp(-loss)))
        return epsilon_of(right, tested - right, tested, 0, risk) > declared

    assert shown(seen) and not shown(seen - 0.06)
