from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.gaussian import Gaussian
from tests.transforms.mechanisms.item_by_item import NoisyOrder
from tests.transforms.mechanisms.noise_laws import root


def delta_of(scale: float, epsilon: float, sensitivity: float) -> float:
    """Balle & Wang 2018, Theorem 8, as printed there."""
    a, b = sensitivity / (2 * scale), epsilon * scale / sensitivity
    return ndtr(a - b) - math.exp(epsilon) * ndtr(-a - b)


class TestGaussian(NoisyOrder):
    mechanisms = [
        Gaussian(1.0, 0.05),
        Gaussian(1.0, 0.05, max_items_per_user=1),
        Gaussian(1.0, 0.05, max_items_per_user=2, neighbours="swap"),
    ]

    def noise_and_scale(self, mechanism: Gaussian, d: int, k: int) -> tuple[str, Fraction]:
        return "gaussian", mechanism.scale(d)

    @pytest.mark.parametrize(
        ("epsilon", "delta", "m", "d", "squared"),
        [(1.0, 1e-6, 4, 1000, 3.984), (0.1, 1e-9, None, 50, 12.5), (5.0, 1e-3, 30, 21, 110 / 21)],
    )
    def test_the_scale_is_the_papers(self, epsilon: float, delta: float, m: int | None, d: int, squared: float) -> None:
        best = root(lambda s: delta_of(s, epsilon, math.sqrt(squared)) - delta, 1e-2, 1e6)
        assert float(Gaussian(epsilon, delta, max_items_per_user=m).scale(d)) == pytest.approx(best, rel=1e-8)

    @pytest.mark.parametrize(("neighbours", "step"), [("add-remove", 1), ("swap", 2)])
    def test_the_order_of_two_uses_its_budget_up(self, neighbours: str, step: int) -> None:
        """Which of two is first is told by one difference, for which the noise is as small as it may be."""
        mechanism = Gaussian(0.5, 1e-3, neighbours=neighbours)

        def worst(scale: float) -> float:
            gaps = ndtr(np.arange(300, -301, -1) / (scale * math.sqrt(2)))
            ups, downs = gaps[step:], gaps[:-step]
            return float(np.maximum(downs - math.exp(0.5) * ups, (1 - ups) - math.exp(0.5) * (1 - downs)).max())

        scale = float(mechanism.scale(2))
        assert 0.95e-3 < worst(scale) <= 1e-3 * (1 + 1e-9)
        assert worst(0.97 * scale) > 1e-3

    def test_one_item_has_one_order(self) -> None:
        assert Gaussian(1.0, 1e-6)([5], 1, RandomBits.keyed(b"one")).tolist() == [0]

    def test_zcdp_of_gaussian_noise(self) -> None:
        mechanism = Gaussian(1.0, 1e-6, max_items_per_user=4)
        for kind, moved in ((mechanism, Fraction(96 * 4, 100)), (Gaussian(1.0, 1e-6), 25)):
            rho = kind.cost(10).rho
            assert rho >= moved / (2 * kind.scale(100) ** 2)
            assert float(rho) == pytest.approx(float(moved) / (2 * float(kind.scale(100)) ** 2))

    def test_the_scale_is_a_rational(self) -> None:
        assert isinstance(Gaussian(1.0, 1e-6, 4).scale(10), Fraction)
