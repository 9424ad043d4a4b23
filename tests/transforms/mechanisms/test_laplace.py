from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from private_topk.testing import max_log_ratio
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.laplace import Laplace
from private_topk.transforms.mechanisms.oneshot import Oneshot
from tests.transforms.mechanisms import laws
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

    def test_takes_the_smaller_calibration(self) -> None:
        counts = np.arange(50)
        answers = [m(counts, 5, RandomBits.keyed(b"scale")).tolist() for m in (Laplace(1.0), Oneshot(1.0, "laplace"))]
        loose = Laplace(1.0, max_items_per_user=7)(counts, 5, RandomBits.keyed(b"scale")).tolist()
        tight = Laplace(1.0, max_items_per_user=2)(counts, 5, RandomBits.keyed(b"scale")).tolist()
        assert answers[0] == answers[1] == loose
        assert tight == Laplace(2.5)(counts, 5, RandomBits.keyed(b"scale")).tolist()

    def test_the_bound_is_needed(self) -> None:
        """A user with two items breaks a calibration to one: the bound must be enforced by the caller."""
        before, after = (
            laws.noisy_order((5, 5, 9), 2, "laplace", Fraction(1)),
            laws.noisy_order((6, 6, 9), 2, "laplace", Fraction(1)),
        )
        assert max_log_ratio(before, after) < 1.0 + 1e-9
        before, after = (
            laws.noisy_order((0, 0, 0, 0), 2, "laplace", Fraction(1)),
            laws.noisy_order((1, 1, 0, 0), 2, "laplace", Fraction(1)),
        )
        assert max_log_ratio(before, after) > 1.05

    @pytest.mark.parametrize("bound", [0, -1, 1.5, True, "2"])
    def test_the_bound_is_a_whole_number(self, bound: object) -> None:
        with pytest.raises(ValueError, match="max_items_per_user must be a whole number of at least 1, got"):
            Laplace(1.0, max_items_per_user=bound)
