from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms import Cost
from private_topk.transforms.mechanisms.exact.noise import LIPSCHITZ_NOISES
from private_topk.transforms.mechanisms.oneshot import Oneshot
from private_topk.transforms.mechanisms.peeling import Peeling
from tests.transforms.mechanisms.item_by_item import NoisyOrder
from tests.transforms.mechanisms.noise_laws import NOISE_LAWS


class TestOneshot(NoisyOrder):
    mechanisms = [Oneshot(1.0, noise=noise) for noise in LIPSCHITZ_NOISES] + [Oneshot(2.0, neighbours="swap")]

    def noise_and_scale(self, mechanism: Oneshot, d: int, k: int) -> tuple[str, Fraction]:
        return mechanism.noise, (k if mechanism.neighbours == "add-remove" else 2 * k) / Fraction(mechanism.epsilon)

    @pytest.mark.parametrize("noise", LIPSCHITZ_NOISES)
    def test_densities_fall_no_faster_than_the_proof_of_the_order_needs(self, noise: str) -> None:
        """f(x + s) >= exp(-s) f(x) for s >= 0, and log(1 - F) 1-Lipschitz."""
        law, x = NOISE_LAWS[noise], np.linspace(-30, 30, 1201)
        for s in (0.01, 0.5, 1.0, 3.0):
            assert (law.pdf(x + s) >= np.exp(-s) * law.pdf(x) * (1 - 1e-9)).all()
            assert (law.sf(x + s) >= np.exp(-s) * law.sf(x) * (1 - 1e-9)).all()

    def test_unknown_noise_is_refused(self) -> None:
        with pytest.raises(ValueError, match="noise must be one of gumbel, .*half-logistic, got 'gaussian'"):
            Oneshot(1.0, noise="gaussian")

    def test_cost_is_that_of_peeling_with_gumbel_noise_only(self) -> None:
        assert Oneshot(2.0, noise="gumbel").cost(10) == Peeling(2.0).cost(10)
        assert Oneshot(2.0).cost(10) == Cost.pure(Fraction(2))
