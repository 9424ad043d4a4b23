"""Groups: one user changes as many rankings as is said. Which groups that user counts in: test_dictionaries.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

from private_topk.pipelines.budget.sharing import cost_of
from private_topk.pipelines.question import Question
from private_topk.transforms import CountBudget, Groups, Period, PrivateTopK, Release, ReleaseKey
from private_topk.transforms.mechanisms import Joint, noise_of_counts
from private_topk.transforms.select import RankingKey
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import WindowBounds
from tests.laws import max_log_ratio
from tests.refusals import refused
from tests.transforms.mechanisms.own import SaysNothing
from tests.transforms.mechanisms.stated import contract_of
from tests.transforms.pipelines import create, outcome

ITEMS, NAMES = ["a", "b", "c"], ["north", "south", "west", "nowhere"]


WEEK = Period(datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 8, tzinfo=UTC), timedelta(days=1))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_rankings_of_two_groups_stay_within_epsilon(relation: str) -> None:
    """Two groups, all user types: the law of both rankings together, on neighbours both ways. Who is replaced may leave
    one and enter the other, for no more than a replacement within one: tests/transforms/mechanisms/test_moves.py has
    the rest.
    """
    spec = Question(TopK(1, Joint(1.0, neighbours=relation), ["x", "y"], groups=["north", "south"]))
    share = spec.top_k.mechanism
    assert spec.top_k.rankings_of_a_user() == 1 and share.epsilon == 1
    users = [(g, items) for g in (0, 1) for items in ((1, 0), (0, 1), (1, 1))]
    base, worst = np.array([[3, 2], [1, 1]]), 0.0

    def law(counts: np.ndarray) -> dict[tuple[int, ...], Any]:
        north, south = (contract_of(Joint).law(share, tuple(row), 1) for row in counts.tolist())
        return {(*a, *b): p * q for a, p in north.items() for b, q in south.items()}

    def with_user(user: tuple[int, tuple[int, int]] | None) -> np.ndarray:
        counts = base.copy()
        if user is not None:
            counts[user[0]] += user[1]
        return counts

    others = users if relation == "replace-one" else [None]
    for one in users:
        for other in others:
            worst = max(worst, max_log_ratio(law(with_user(one)), law(with_user(other))))
    assert 0.1 < worst <= 1 + 1e-9


@pytest.mark.parametrize(("delta", "limit"), [(0.0, None), (0.0, 1), (1e-6, None), (1e-6, 2)])
def test_counts_of_groups_have_the_noise_of_users_who_move(delta: float, limit: int | None) -> None:
    """Only under replace-one, and with a mechanism that pays for one ranking where two change."""
    counts = CountBudget(1.0, delta)
    for mechanism, groups, moving in [
        (Joint(1.0, neighbours="replace-one"), NAMES, True),
        (Joint(1.0, neighbours="replace-one"), None, False),
        (Joint(1.0), NAMES, False),
        (SaysNothing(1.0, neighbours="replace-one"), NAMES, False),
    ]:
        spec = TopK(3, mechanism, ITEMS, limit, counts, groups=groups)
        noise = noise_of_counts(3, 1.0, delta or None, limit, mechanism.neighbours, 1, moving)
        assert spec.users_move() == moving and spec.noise(3).stddev == noise.stddev()


def test_more_groups_a_user_share_the_budget_and_are_charged() -> None:
    one, three = (Question(TopK(2, Joint(0.75), ITEMS, groups=Groups.of(NAMES, most))) for most in (1, 3))
    assert one.top_k.mechanism.epsilon == 0.75 and one.privacy.total is None
    assert three.top_k.mechanism.epsilon == 0.25 and three.privacy.each == 3
    assert cost_of(three.top_k).epsilon == Fraction(3, 4) and cost_of(one.top_k).epsilon == Fraction(3, 4)
    swapped = [
        Question(TopK(2, kind, ITEMS, groups=Groups.of(NAMES, 1)))
        for kind in (Joint(1.0, neighbours="replace-one"), SaysNothing(1.0, neighbours="replace-one"))
    ]
    assert [its.top_k.rankings_of_a_user() for its in swapped] == [1, 2], "who proves nothing pays for both"
    assert swapped[1].top_k.mechanism.epsilon == 0.5
    all_of_them = Question(TopK(2, Joint(0.75), ITEMS, groups=Groups.of(NAMES, 99)))
    assert all_of_them.top_k.rankings_of_a_user() == 4, "there are no more groups than four"
    weeks = Question(TopK(2, Joint(1.0), ITEMS, groups=Groups.of(NAMES, 2)), period=WEEK, privacy_unit="user")
    assert (weeks.privacy.windows, weeks.privacy.each) == (6, 2), "two rankings in each of three windows"
    assert weeks.top_k.mechanism.epsilon == pytest.approx(1 / 6)
    with refused("horizon", "must be at least the 3 windows of this run"):
        Question(TopK(2, Joint(1.0), ITEMS, groups=Groups.of(NAMES, 2)), period=WEEK, privacy_unit="user", horizon=2)


@pytest.mark.parametrize(
    ("labels", "most", "message"),
    [
        ([], 1, "groups must hold at least one value"),
        (["a", "a"], 1, "groups must hold every value once"),
        ("abc", 1, "groups must be a list of groups, got a single text"),
        (["a"], 0, "groups_per_user must be a whole number of at least 1, got 0"),
        (["a"], True, "groups_per_user must be a whole number of at least 1"),
    ],
)
def test_invalid_lists_of_groups_are_refused(labels: Any, most: int, message: str) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=message):
        Groups.of(labels, most)


def test_labels_of_windows_and_groups_are_unique() -> None:
    """Whatever the groups are called: the label is part of the seed."""
    bounds = [WindowBounds(), *WEEK.windows()]
    labels = {RankingKey(window, group).label() for window in bounds for group in (None, "", "all", "a|b", "|")}
    assert len(labels) == 5 * len(bounds)


def test_groups_of_equal_counts_have_different_noise() -> None:
    """Two groups of equal counts meet other noise; rankings without groups keep their seed."""
    release = Release(ReleaseKey.held(b"a key of enough bytes"), "seeds")
    rows = [(f"u{n}", f"i{n % 40}", "north" if n < 400 else "south") for n in range(800)]
    rank = PrivateTopK(40, Joint(0.01), [f"i{n}" for n in range(40)], groups=["north", "south"], release=release)
    found = outcome(lambda p: p | create(rows) | rank | beam.Map(lambda r: list(r.items)))
    assert found[0][1] != found[1][1]
