"""The guess that is chosen on some draws, put to others whose law is known; bounds that err as seldom as said.

Clopper-Pearson is compared with scipy's quantiles.
"""

from __future__ import annotations

import math
import random

import pytest
from scipy.special import betaincinv

from benchmarks.audit.distinguish import (
    Answer,
    Drawn,
    Guess,
    Tally,
    choose_guess,
    epsilon_at_least,
    epsilon_of,
    features,
    probability_at_least,
    probability_at_most,
)

pytestmark = pytest.mark.nightly  # what the audit itself is worth; by day it has to find two planted defects


def answers(seed: int, chance: float, draws: int = 400) -> Drawn:
    """Item 1 comes first with this probability, and item 0 else; noisy counts that tell nothing."""
    draw = random.Random(seed)
    orders = [(1, 0) if draw.random() < chance else (0, 1) for _ in range(draws)]
    return [(Answer(items, (draw.randrange(100), draw.randrange(100))),) for items in orders]


def result(guess: Guess, one: Drawn, other: Drawn) -> tuple[int, int]:
    """How often it is right and wrong."""
    (right, wrong), (wrong_too, right_too) = guess.made(one), guess.made(other)
    return right + right_too, wrong + wrong_too


def test_the_feature_that_differs_is_chosen_and_seen_again() -> None:
    guess = choose_guess(answers(1, 0.1), answers(2, 0.9), 0.0)
    assert guess.score > 1.5 and guess.feature in ("the answer", "the place of item 0", "the place of item 1")
    right, wrong = result(guess, answers(3, 0.1), answers(4, 0.9))
    assert wrong < 200 and right > 600 and right + wrong == 800


def test_features_with_many_values_do_not_win_by_luck() -> None:
    """Two equal worlds: what looked good on one half is put to the other, or the scores would be near 3."""
    for seed in range(5):
        guess = choose_guess(answers(seed, 0.5), answers(100 + seed, 0.5), 0.0)
        assert guess.score < 1, guess


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_answers_that_both_give_alike_are_not_guessed_by(delta: float) -> None:
    """Three answers in four are the same: to guess by those would bury the fourth, which tells by 9 to 1."""
    draw = random.Random(5)

    def drawn(there: bool) -> Drawn:
        told = [(2,) if draw.random() < 0.75 else (int(there == (draw.random() < 0.9)),) for _ in range(2000)]
        return [(Answer(items, None),) for items in told]

    right, wrong = result(choose_guess(drawn(False), drawn(True), delta), drawn(False), drawn(True))
    assert 850 < right + wrong < 1150 and right > 7 * wrong


def test_numbers_beyond_all_that_came_are_guessed_by() -> None:
    draw = random.Random(6)

    def drawn(mean: int) -> Drawn:
        return [(Answer((0,), (round(draw.gauss(mean, 40)),)),) for _ in range(100)]

    guess = choose_guess(drawn(0), drawn(100), 0.0)
    assert result(guess, [(Answer((0,), (-(10**6),)),)], [(Answer((0,), (10**6,)),)]) == (2, 0)
    assert guess.made([(Answer((), None),)]) == (0, 0), "what has no such number is not guessed by"


def test_two_releases_are_looked_at_together() -> None:
    found = features((Answer((0, 1), (5, 3)), Answer((1, 0), (6, 5))))
    assert found["both answers"] == ((0, 1), (1, 0)) and found["the same answer twice"] is False
    assert found["by how much noisy counts differ"] == ((0, 0), (1, 3)) and found["the sum of noisy counts"] == 11
    assert features((Answer((), None),))["how many items"] == 0


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


def test_certain_events_bound_epsilon_and_events_within_delta_do_not() -> None:
    found = [epsilon_at_least(Tally(n, n), Tally(0, n), 0.01, 1e-6) for n in (100, 1000, 10_000)]
    assert found[0] < found[1] < found[2] > 6 and epsilon_of(1000, 0, 1000, 0.0, 1e-6) > 4
    assert epsilon_at_least(Tally(5, 1000), Tally(0, 1000), 0.01, 1e-6) == 0
    for delta in (0.0, 0.01):
        assert epsilon_of(0, 0, 50, delta, 0.1) == 0 == epsilon_of(0, 40, 50, delta, 0.1)


@pytest.mark.parametrize(
    ("declared", "draws", "seen"),
    [
        (2.0, 500, 2.72),
        (2.0, 1000, 2.48),
        (2.0, 2000, 2.33),
        (2.0, 5000, 2.22),
        (1.25, 500, 1.78),
        (1.25, 1000, 1.6),
        (1.25, 2000, 1.5),
        (1.25, 5000, 1.41),
    ],
)
def test_the_least_loss_that_so_many_draws_show(declared: float, draws: int, seen: float) -> None:
    """docs/audit.md has these: in an audit of all mechanisms, of an answer that tells by its odds whether one user is
    there, when it comes as often as is expected of it. Three fifths of the draws test it.
    """
    tested, risk = 2 * round(0.6 * draws), 1e-3 / 361

    def shown(loss: float) -> bool:
        right = round(tested / (1 + math.exp(-loss)))
        return epsilon_of(right, tested - right, tested, 0, risk) > declared

    assert shown(seen) and not shown(seen - 0.06)
