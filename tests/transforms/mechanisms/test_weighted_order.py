"""The weighted order against its law, and the privacy inequality on neighbours made of users and their items."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache
from typing import ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits, WeightedOrder
from private_topk.transforms.mechanisms.exact.argmax import noisy_ranks
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.weighted import UNIT
from private_topk.transforms.testing import Law, hockey_stick
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.contract import Contract
from tests.transforms.mechanisms.test_gaussian import delta_of
from tests.transforms.mechanisms.test_weighted_gaussian import User, sums


@cache
def law(weights: tuple[int, ...], k: int, scale: Fraction) -> Law:
    return laws.noisy_order(weights, k, "gaussian", scale)


class TestWeightedOrder(Contract):
    mechanisms: ClassVar = [WeightedOrder(1.0, 1e-6, 10), WeightedOrder(2.0, 0.01, 3, whole_items=1, neighbours="swap")]

    def test_draws_are_those_of_gaussian_noise_at_its_scale(self, mechanism: WeightedOrder) -> None:
        """`noisy_ranks`, whose draws follow the law of each noise: exact/test_order_statistics."""
        histogram = Histogram.of(np.arange(40) * UNIT // 3)
        for number in range(5):
            one, two = (RandomBits.keyed(b"%d" % number) for _ in range(2))
            noisy = noisy_ranks(histogram, mechanism.scale(40), "gaussian", 7, two.draw())
            assert mechanism.prepare(histogram).ranks(7, one).tolist() == noisy.tolist()

    @pytest.mark.parametrize("neighbours", ["add-remove", "swap"])
    @pytest.mark.parametrize(("whole", "limit"), [(1, 1), (1, 3), (2, 3)])
    def test_no_user_tells_more_than_the_budget(self, neighbours: str, whole: int, limit: int) -> None:
        """Three items, crowds near each other, and every user there can be."""
        mechanism = WeightedOrder(0.5, 0.05, limit, whole, neighbours)
        scale, worst = mechanism.scale(3), 0.0
        kinds: list[User] = [u for n in range(1, limit + 1) for u in itertools.combinations(range(3), n)]
        for crowd in [(1, 1, 1), (2, 1, 0), (5, 1, 1)]:
            others = tuple((item,) for item, users in enumerate(crowd) for _ in range(users))
            pairs = itertools.permutations(kinds, 2) if neighbours == "swap" else ((user, ()) for user in kinds)
            for users in pairs:
                here = [law(sums((*others, *((u,) if u else ())), 3, min(whole, limit)), 3, scale) for u in users]
                worst = max(worst, *(hockey_stick(*order, 0.5) for order in (here, here[::-1])))
        assert 0.005 < worst <= 0.05

    @pytest.mark.parametrize("neighbours", ["add-remove", "swap"])
    @pytest.mark.parametrize(("whole", "limit"), [(1, 5), (2, 5), (4, 5)])
    def test_no_move_reaches_further_into_the_order(self, neighbours: str, whole: int, limit: int) -> None:
        """All users of five items, replaced or not: squared distances orthogonal to (1, ..., 1)."""
        mechanism = WeightedOrder(1.0, 1e-3, limit, whole, neighbours)
        kinds: list[User] = [u for n in range(limit + 1) for u in itertools.combinations(range(5), n)]
        adds = np.array([sums((u,) if u else (), 5, min(whole, limit)) for u in kinds]) / UNIT
        moves = adds if neighbours == "add-remove" else (adds[:, None] - adds[None]).reshape(-1, 5)
        reached = (moves**2).sum(axis=1) - moves.sum(axis=1) ** 2 / 5
        stated = float(mechanism.squared_sensitivity(5))
        assert reached.max() <= stated + 1e-9
        assert reached.max() > (0.95 if neighbours == "add-remove" else 0.5) * stated

    def test_the_scale_is_the_least(self) -> None:
        mechanism = WeightedOrder(1.0, 1e-6, 500, 20)
        scale = float(mechanism.scale(1000)) / UNIT
        assert delta_of(scale, 1.0, (20 * 0.98) ** 0.5) == pytest.approx(1e-6, rel=1e-6)
        assert mechanism.cost(9).rho == WeightedOrder(1.0, 1e-6, 7, 3).cost(1).rho and mechanism.scale(1) > 0
