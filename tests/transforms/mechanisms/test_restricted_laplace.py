from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.restricted_laplace import RestrictedLaplace
from tests.transforms.mechanisms.unknown_contract import RELATIONS, SETTINGS, FrameworkContract


class TestRestrictedLaplace(FrameworkContract):
    mechanisms: ClassVar = [RestrictedLaplace(1.0, 1e-6), RestrictedLaplace(0.5, 1e-9, 3, kbar=40, neighbours="swap")]
    private: ClassVar = [
        (RestrictedLaplace(epsilon, 0.1, bound, kbar, relation), k)
        for relation in RELATIONS
        for epsilon, k, kbar in SETTINGS
        for bound in (None, 1)
    ]
    tight: ClassVar = 0.8

    def budget(self, mechanism: RestrictedLaplace, k: int) -> tuple[Fraction, Fraction]:
        return Fraction(mechanism.epsilon) / 4, Fraction(mechanism.delta)

    def noise_and_scale(self, mechanism: RestrictedLaplace, k: int, moved: int) -> tuple[str, Fraction]:
        slots = moved * min(k, mechanism.max_items_per_user or k)
        return "laplace", slots / (Fraction(mechanism.epsilon) * Fraction(3, 4))
