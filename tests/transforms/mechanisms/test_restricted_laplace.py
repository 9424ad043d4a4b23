from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.restricted_laplace import RestrictedLaplace
from tests.transforms.mechanisms.framework_contract import RELATIONS, SETTINGS, FrameworkContract
from tests.transforms.mechanisms.unknown_laws import (
    Counts,
    Ranked,
    laplace_order,
)


class TestRestrictedLaplace(FrameworkContract):
    mechanisms: ClassVar = [
        RestrictedLaplace(1.0, 1e-6),
        RestrictedLaplace(0.5, 1e-9, 3, kbar=40, neighbours="swap"),
    ]
    private: ClassVar = [
        (RestrictedLaplace(epsilon, 0.1, bound, kbar, relation), k)
        for relation in RELATIONS
        for epsilon, k, kbar in SETTINGS
        for bound in (None, 1)
    ]
    followed: ClassVar = [
        (RestrictedLaplace(9.0, 0.5, kbar=3), (6, 5, 5, 3, 1), 2),
        (RestrictedLaplace(12.0, 0.5, 2, kbar=4, neighbours="swap"), (0, 9, 7, 0, 6), 3),
    ]
    tight: ClassVar = 0.8

    def budget(self, mechanism: RestrictedLaplace, k: int) -> tuple[Fraction, Fraction]:
        return Fraction(mechanism.epsilon) / 4, Fraction(mechanism.delta)

    def order(self, mechanism: RestrictedLaplace, largest: Counts, k: int, drift: int) -> Ranked:
        moved = min(k, mechanism.max_items_per_user or k)
        scale = drift * moved / (Fraction(mechanism.epsilon) * Fraction(3, 4))
        return laplace_order(tuple(c / scale for c in largest), k)
