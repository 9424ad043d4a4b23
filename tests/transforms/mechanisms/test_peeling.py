from __future__ import annotations

from fractions import Fraction

from private_topk.transforms.mechanisms import Cost
from private_topk.transforms.mechanisms.oneshot import Oneshot
from private_topk.transforms.mechanisms.peeling import Peeling
from private_topk.transforms.testing import frequencies
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.item_by_item import COUNTS, NoisyOrder


class TestPeeling(NoisyOrder):
    mechanisms = [Peeling(1.0), Peeling(2.5, neighbours="swap")]

    def noise_and_scale(self, mechanism: Peeling, d: int, k: int) -> tuple[str, Fraction]:
        return "gumbel", (k if mechanism.neighbours == "add-remove" else 2 * k) / Fraction(mechanism.epsilon)

    def test_is_the_one_shot_mechanism_with_gumbel_noise(self) -> None:
        assert frequencies(Peeling(1.0), COUNTS, 3, 100, b"same") == frequencies(
            Oneshot(1.0, noise="gumbel"), COUNTS, 3, 100, b"same"
        )
        product = laws.peeling(COUNTS, 3, Fraction(1, 3))
        quadrature = laws.noisy_order(COUNTS, 3, "gumbel", Fraction(3))
        assert all(abs(product[s] - quadrature[s]) < 1e-12 for s in product)

    def test_cost_of_k_exponential_mechanisms(self) -> None:
        assert Peeling(2.0).cost(10) == Cost(Fraction(2), rho=Fraction(4, 80), bounded_range=Fraction(19, 5))
        assert Peeling(2.0).cost(1) == Cost.exponential(Fraction(2))
