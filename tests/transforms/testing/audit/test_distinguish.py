"""The guess that is chosen on some draws, put to others whose law is known."""

from __future__ import annotations

import random

import pytest

from private_topk.transforms.testing.audit.distinguish import Answer, Drawn, Guess, choose_guess, features


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
