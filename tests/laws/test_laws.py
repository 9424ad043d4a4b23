from __future__ import annotations

import math
from fractions import Fraction

import pytest
from flint import arb

from private_topk.transforms.mechanisms import Laplace
from tests.laws import hockey_stick, log_ratio_range, max_log_ratio, neighbours, renyi, total
from tests.laws.laws import permitted_neighbours

P = {(0,): Fraction(1, 2), (1,): Fraction(1, 4), (2,): Fraction(1, 4)}
Q = {(0,): arb(1) / 4, (1,): 0.25, (2,): Fraction(1, 2)}


def test_distances_equal_values_computed_by_hand() -> None:
    assert total(P).contains(1) and total(Q).overlaps(1)
    assert max_log_ratio(P, Q) == pytest.approx(math.log(2))
    assert log_ratio_range(P, Q) == pytest.approx(2 * math.log(2))
    assert hockey_stick(P, Q, 0.0) == pytest.approx(1 / 4)
    assert hockey_stick(P, Q, math.log(1.5)) == pytest.approx(1 / 2 - 1.5 / 4)
    assert renyi(P, Q, 2) == pytest.approx(math.log(1 / 2 * 2 + 1 / 4 + 1 / 4 / 2))
    assert renyi(P, Q, 1) == pytest.approx(math.log(2) / 2 - math.log(2) / 4)


def test_an_answer_of_one_side_only_is_infinitely_far() -> None:
    alone = {(0,): Fraction(1)}
    for distance in (max_log_ratio, log_ratio_range):
        assert distance(P, alone) == math.inf == distance(alone, P)
    assert renyi(P, alone, 2) == math.inf
    assert hockey_stick(P, alone, 1.0) == pytest.approx(1 / 2)
    assert max_log_ratio({**alone, (1,): Fraction(0)}, alone) == 0


def test_renyi_of_far_laws_does_not_overflow() -> None:
    tiny = {(0,): arb(-800).exp(), (1,): 1 - arb(-800).exp()}
    assert renyi({(0,): 0.5, (1,): 0.5}, tiny, 64) == pytest.approx(800, rel=0.01)


def test_neighbours_are_all_moves_of_one_user() -> None:
    assert set(neighbours((2, 0))) == {(3, 0), (2, 1), (3, 1), (1, 0)}
    assert len(list(neighbours((2, 2), "replace-one"))) == 8
    assert set(permitted_neighbours(Laplace(1.0, 1), (2, 0))) == {(3, 0), (2, 1), (1, 0)}
    assert (3, 3, 1) not in set(permitted_neighbours(Laplace(1.0, 1, "replace-one"), (2, 2, 2)))
    assert (3, 1, 2) in set(permitted_neighbours(Laplace(1.0, 1, "replace-one"), (2, 2, 2)))
