from __future__ import annotations

import math
from fractions import Fraction

import pytest

from private_topk.transforms.mechanisms.cdp_peeling import CdpPeeling
from tests.transforms.mechanisms.item_by_item import NoisyOrder
from tests.transforms.mechanisms.noise_laws import root


def lemma_4_2(share: float, k: int, delta: float) -> float:
    """Gillenwater et al. 2022, Lemma 4.2, as printed there."""
    return k * share**2 / 8 + 2 * share * math.sqrt(k * math.log(1 / delta) / 8)


def bounded_range(share: float, k: int, delta: float) -> float:
    """Dong, Durfee & Rogers 2020: the adaptive bound."""
    ratio = share / (1 - math.exp(-share))
    return min(k * share, k * (ratio - 1 - math.log(ratio)) + share * math.sqrt(k / 2 * math.log(1 / delta)))


class TestCdpPeeling(NoisyOrder):
    mechanisms = [CdpPeeling(1.0, 0.1), CdpPeeling(2.0, 0.3, neighbours="swap")]

    def noise_and_scale(self, mechanism: CdpPeeling, d: int, k: int) -> tuple[str, Fraction]:
        return "gumbel", (1 if mechanism.neighbours == "add-remove" else 2) / mechanism.share(k)

    @pytest.mark.parametrize(("epsilon", "delta", "k"), [(1.0, 1e-6, 100), (0.1, 1e-9, 1000), (5.0, 1e-3, 30)])
    def test_the_share_is_the_best_of_the_papers_formulas(self, epsilon: float, delta: float, k: int) -> None:
        best = max(
            root(lambda s, f=f: f(s, k, delta) - epsilon, epsilon / k, epsilon) for f in (lemma_4_2, bounded_range)
        )
        assert float(CdpPeeling(epsilon, delta).share(k)) == pytest.approx(best, rel=1e-10)

    def test_small_k_falls_back_on_basic_composition(self) -> None:
        assert CdpPeeling(1.0, 1e-6).share(1) == 1
        assert CdpPeeling(0.3, 1e-6).share(2) == Fraction(0.3) / 2

    @pytest.mark.parametrize("delta", [0, 1, -0.1, 2.0, float("nan"), "0.1"])
    def test_delta_is_a_probability(self, delta: object) -> None:
        with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1, got"):
            CdpPeeling(1.0, delta)

    def test_rho_needs_no_delta(self) -> None:
        mechanism = CdpPeeling(1.0, 1e-6)
        assert mechanism.cost(100).rho == 100 * mechanism.share(100) ** 2 / 8
