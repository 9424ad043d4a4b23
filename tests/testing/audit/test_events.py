"""Guesses are chosen for what they tell, not for their luck."""

from __future__ import annotations

import random

import pytest

from private_topk.testing.audit.events import Answer, choose_guess, features


def answers(seed: int, chance: float, draws: int = 400) -> list[tuple[Answer, ...]]:
    """Item 1 comes first with a chance; its count is noise among a hundred values, which tells nothing."""
    draw = random.Random(seed)
    orders = [(1, 0) if draw.random() < chance else (0, 1) for _ in range(draws)]
    return [(Answer(items, (draw.randrange(100), draw.randrange(100))),) for items in orders]


def test_the_feature_that_differs_is_chosen_and_seen_again() -> None:
    guess = choose_guess(answers(1, 0.1), answers(2, 0.9), 0.0)
    assert guess.score > 1.5 and guess.feature in ("the answer", "the place of item 0", "the place of item 1")
    made = guess.made(answers(3, 0.1), answers(4, 0.9))
    assert made.wrong < 200 and made.right > 600 and made.draws == 800 == made.right + made.wrong


def test_features_with_many_values_do_not_win_by_luck() -> None:
    """Two equal worlds: what looked good on one half is put to the other, or the scores would be near 3."""
    for seed in range(5):
        guess = choose_guess(answers(seed, 0.5), answers(100 + seed, 0.5), 0.0)
        assert guess.score < 1, guess


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_answers_that_both_worlds_give_alike_are_not_guessed_by(delta: float) -> None:
    """Three answers in four are the same: to guess by those would bury the fourth, which tells by 9 to 1."""
    draw = random.Random(5)

    def world(there: bool) -> list[tuple[Answer, ...]]:
        told = [(2,) if draw.random() < 0.75 else (int(there == (draw.random() < 0.9)),) for _ in range(2000)]
        return [(Answer(items, None),) for items in told]

    guess = choose_guess(world(False), world(True), delta)
    made = guess.made(world(False), world(True))
    assert 850 < made.right + made.wrong < 1150 and made.right > 7 * made.wrong


def test_numbers_beyond_all_that_came_are_guessed_by() -> None:
    draw = random.Random(6)

    def world(mean: int, draws: int) -> list[tuple[Answer, ...]]:
        return [(Answer((0,), (round(draw.gauss(mean, 40)),)),) for _ in range(draws)]

    guess = choose_guess(world(0, 100), world(100, 100), 0.0)
    made = guess.made([(Answer((0,), (-(10**6),)),)], [(Answer((0,), (10**6,)),)])
    assert (made.right, made.wrong) == (2, 0)
    nothing = [(Answer((), None),)]
    assert guess.made(nothing, nothing) == (0, 0, 2), "what has no such number is not guessed by, and takes no time"


def test_two_releases_are_looked_at_together() -> None:
    pair = (Answer((0, 1), (5, 3)), Answer((1, 0), (6, 5)))
    found = features(pair)
    assert found["both answers"] == ((0, 1), (1, 0)) and found["the same answer twice"] is False
    assert found["by how much noisy counts differ"] == ((0, 0), (1, 3)) and found["the sum of noisy counts"] == 11
    assert features((Answer((), None),))["how many items"] == 0
