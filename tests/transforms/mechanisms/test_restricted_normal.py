from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.restricted_normal import RestrictedNormal
from tests.transforms.mechanisms.unknown_contract import RELATIONS, SETTINGS, FrameworkContract


class TestRestrictedNormal(FrameworkContract):
    mechanisms: ClassVar = [RestrictedNormal(1.0, 1e-6, 5), RestrictedNormal(0.5, 1e-9, 50, kbar=40, neighbours="swap")]
    private: ClassVar = [
        (RestrictedNormal(epsilon, 0.1, bound, kbar, relation), k)
        for relation in RELATIONS
        for epsilon, k, kbar in SETTINGS
        for bound in (1, 2)
    ]

    def budget(self, mechanism: RestrictedNormal, k: int) -> tuple[Fraction, Fraction]:
        part = sorted([Fraction(1, 3), Fraction(4, mechanism.max_items_per_user), Fraction(1, 2)])[1]
        return part * Fraction(mechanism.epsilon), Fraction(mechanism.delta) / 2

    def noise_and_scale(self, mechanism: RestrictedNormal, k: int, moved: int) -> tuple[str, Fraction]:
        epsilon_r, half = self.budget(mechanism, k)
        slots = min(moved * mechanism.max_items_per_user, mechanism.kbar_for(k))
        return "gaussian", gaussian_scale(Fraction(mechanism.epsilon) - epsilon_r, half, Fraction(slots))
