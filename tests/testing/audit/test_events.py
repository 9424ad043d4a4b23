"""Events are chosen for what they tell, not for their luck."""

from __future__ import annotations

import random

from private_topk.testing.audit.events import Answer, choose_events, features


def answers(seed: int, chance: float, draws: int = 400) -> list[tuple[Answer, ...]]:
    """Item 1 comes first with a chance; its count is noise among a hundred values, which tells nothing."""
    draw = random.Random(seed)
    orders = [(1, 0) if draw.random() < chance else (0, 1) for _ in range(draws)]
    return [(Answer(items, (draw.randrange(100), draw.randrange(100))),) for items in orders]


def test_the_event_that_differs_is_chosen_and_seen_again() -> None:
    up, down = choose_events(answers(1, 0.1), answers(2, 0.9), 0.0)
    assert not up.reverse and down.reverse and up.score > 1 < down.score
    assert up.feature in ("the answer", "the place of item 0", "the place of item 1")
    fresh = up.tally(answers(3, 0.1)), up.tally(answers(4, 0.9))
    assert fresh[0].hits < 100 < 300 < fresh[1].hits and fresh[0].draws == 400


def test_features_with_many_values_do_not_win_by_luck() -> None:
    """Two equal worlds: what looked good on one half is put to the other, or the scores would be near 3."""
    for seed in range(5):
        for event in choose_events(answers(seed, 0.5), answers(100 + seed, 0.5), 0.0):
            assert event.score < 1, event


def test_two_releases_are_looked_at_together() -> None:
    pair = (Answer((0, 1), (5, 3)), Answer((1, 0), (6, 5)))
    found = features(pair)
    assert found["both answers"] == ((0, 1), (1, 0)) and found["the same answer twice"] is False
    assert found["by how much noisy counts differ"] == ((0, 0), (1, 3)) and found["the sum of noisy counts"] == 11
    assert features((Answer((), None),))["how many items"] == 0
