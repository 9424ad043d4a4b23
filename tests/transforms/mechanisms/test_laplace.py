from __future__ import annotations

from fractions import Fraction

import pytest

from private_topk.transforms.mechanisms.laplace import Laplace
from tests.transforms.mechanisms.item_by_item import NoisyOrder


class TestLaplace(NoisyOrder):
    mechanisms = [
        Laplace(1.0),
        Laplace(1.0, max_items_per_user=1),
        Laplace(2.0, neighbours="swap"),
        Laplace(2.0, max_items_per_user=1, neighbours="swap"),
    ]

    def noise_and_scale(self, mechanism: Laplace, d: int, k: int) -> tuple[str, Fraction]:
        moved = min(k, mechanism.max_items_per_user or k) * (1 if mechanism.neighbours == "add-remove" else 2)
        return "laplace", moved / Fraction(mechanism.epsilon)

    @pytest.mark.parametrize("bound", [0, -1, 1.5, True, "2"])
    def test_the_bound_is_a_whole_number(self, bound: object) -> None:
        with pytest.raises(ValueError, match="max_items_per_user must be a whole number of at least 1, got"):
            Laplace(1.0, max_items_per_user=bound)
