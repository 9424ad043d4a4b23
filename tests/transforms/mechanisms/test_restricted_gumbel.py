from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import pytest

from private_topk.transforms.mechanisms.exact.accounting import (
    at_most,
    bounded_range_epsilon,
    exponential_share,
    zcdp_epsilon,
)
from private_topk.transforms.mechanisms.restricted_gumbel import RestrictedGumbel
from tests.transforms.mechanisms.unknown_contract import RELATIONS, SETTINGS, FrameworkContract


class TestRestrictedGumbel(FrameworkContract):
    mechanisms: ClassVar = [RestrictedGumbel(1.0, 1e-6), RestrictedGumbel(0.5, 1e-9, kbar=40, neighbours="swap")]
    private: ClassVar = [
        (RestrictedGumbel(epsilon, 0.1, kbar, relation), k) for relation in RELATIONS for epsilon, k, kbar in SETTINGS
    ]
    followed: ClassVar = [(RestrictedGumbel(8.0, 0.8, kbar=4, neighbours="swap"), (0, 9, 7, 0, 6), 3)]

    def budget(self, mechanism: RestrictedGumbel, k: int) -> tuple[Fraction, Fraction]:
        epsilon, half = Fraction(mechanism.epsilon), Fraction(mechanism.delta) / 2
        return min(4 * exponential_share(epsilon, half, k), epsilon / 2), half

    def noise_and_scale(self, mechanism: RestrictedGumbel, k: int, moved: int) -> tuple[str, Fraction]:
        epsilon_r, half = self.budget(mechanism, k)
        return "gumbel", moved / exponential_share(Fraction(mechanism.epsilon) - epsilon_r, half, k)

    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
    @pytest.mark.parametrize("delta", [1e-12, 1e-3])
    def test_never_over_budget(self, epsilon: float, delta: float) -> None:
        """As published the tests take 4 shares: over the whole budget for k <= 3, all of it at k = 4."""
        whole, half = Fraction(epsilon), Fraction(delta) / 2
        for k in [*range(1, 12), 40, 100, 1000]:
            mechanism = RestrictedGumbel(epsilon, delta)
            (epsilon_r, delta_r), share = mechanism.test_budget(k), mechanism.share(k)
            published = 4 * exponential_share(whole, half, k)
            assert (published > whole) if k <= 3 else (epsilon_r <= published)
            assert 0 < epsilon_r <= whole / 2 and share > 0 and delta_r + half == Fraction(delta)
            rest = whole - epsilon_r
            assert (
                k * share <= rest
                or at_most(bounded_range_epsilon(k, share, half), rest)
                or at_most(zcdp_epsilon(k * share**2 / 8, half), rest)
            )
