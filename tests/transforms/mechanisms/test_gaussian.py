from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy import stats
from scipy.optimize import brentq

from private_topk.transforms.mechanisms.gaussian import Gaussian
from tests.transforms.mechanisms.item_by_item import NoisyOrder


def delta_of(scale: float, epsilon: float, sensitivity: float) -> float:
    """Balle & Wang 2018, Theorem 8, as printed there."""
    a, b = sensitivity / (2 * scale), epsilon * scale / sensitivity
    return stats.norm.cdf(a - b) - math.exp(epsilon) * stats.norm.cdf(-a - b)


class TestGaussian(NoisyOrder):
    mechanisms = [
        Gaussian(1.0, 0.05),
        Gaussian(1.0, 0.05, max_items_per_user=1),
        Gaussian(1.0, 0.05, max_items_per_user=2, neighbours="swap"),
    ]

    def noise_and_scale(self, mechanism: Gaussian, d: int, k: int) -> tuple[str, Fraction]:
        return "gaussian", mechanism.scale(d)

    def ks(self, mechanism: Gaussian) -> tuple[int, ...]:
        return (1, 2, 4) if mechanism is self.mechanisms[0] else ()

    @pytest.mark.parametrize(
        ("epsilon", "delta", "m", "d", "squared"),
        [(1.0, 1e-6, 4, 1000, 4), (0.1, 1e-9, None, 50, 50), (5.0, 1e-3, 30, 20, 20)],
    )
    def test_the_scale_is_the_papers(self, epsilon: float, delta: float, m: int | None, d: int, squared: int) -> None:
        best = brentq(lambda s: delta_of(s, epsilon, math.sqrt(squared)) - delta, 1e-2, 1e6, xtol=1e-13, rtol=1e-13)
        assert float(Gaussian(epsilon, delta, max_items_per_user=m).scale(d)) == pytest.approx(best, rel=1e-8)

    def test_a_replaced_user_moves_twice_as_many_counts(self) -> None:
        one, two = Gaussian(1.0, 1e-6, 3, "swap"), Gaussian(1.0, 1e-6, 6)
        assert one.scale(100) == two.scale(100)
        assert Gaussian(1.0, 1e-6, 60, "swap").scale(100) == Gaussian(1.0, 1e-6, 100).scale(100)

    def test_zcdp_of_gaussian_noise(self) -> None:
        mechanism = Gaussian(1.0, 1e-6, max_items_per_user=4)
        for kind, moved in ((mechanism, 4), (Gaussian(1.0, 1e-6), 100)):
            rho = kind.cost(10).rho
            assert rho >= moved / (2 * kind.scale(100) ** 2)
            assert float(rho) == pytest.approx(moved / (2 * float(kind.scale(100)) ** 2))

    def test_the_scale_is_a_rational(self) -> None:
        assert isinstance(Gaussian(1.0, 1e-6, 4).scale(10), Fraction)
