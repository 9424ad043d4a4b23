from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.restricted_pnf import RestrictedPnf
from tests.transforms.mechanisms.framework_contract import RELATIONS, SETTINGS, FrameworkContract
from tests.transforms.mechanisms.unknown_laws import (
    Counts,
    Ranked,
    flip_order,
)


class TestRestrictedPnf(FrameworkContract):
    mechanisms: ClassVar = [RestrictedPnf(1.0, 1e-6), RestrictedPnf(0.5, 1e-9, kbar=40, neighbours="swap")]
    private: ClassVar = [
        (RestrictedPnf(epsilon, 0.1, kbar, relation), k) for relation in RELATIONS for epsilon, k, kbar in SETTINGS
    ]
    followed: ClassVar = [
        (RestrictedPnf(9.0, 0.5, kbar=3), (6, 5, 5, 3, 1), 2),
        (RestrictedPnf(12.0, 0.5, kbar=4, neighbours="swap"), (0, 9, 7, 0, 6), 3),
    ]
    tight: ClassVar = 0.8

    def budget(self, mechanism: RestrictedPnf, k: int) -> tuple[Fraction, Fraction]:
        return Fraction(mechanism.epsilon) / 4, Fraction(mechanism.delta)

    def order(self, mechanism: RestrictedPnf, largest: Counts, k: int, drift: int) -> Ranked:
        share = Fraction(mechanism.epsilon) * Fraction(3, 4) / k
        return flip_order(tuple(c * share / drift for c in largest), k)
