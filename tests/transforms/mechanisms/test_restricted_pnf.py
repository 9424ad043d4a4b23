from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import numpy as np

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.flips import FlipRounds
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.restricted_pnf import RestrictedPnf
from tests.transforms.mechanisms.unknown_contract import RELATIONS, SETTINGS, FrameworkContract
from tests.transforms.mechanisms.unknown_laws import drift_of


class TestRestrictedPnf(FrameworkContract):
    mechanisms: ClassVar = [RestrictedPnf(1.0, 1e-6), RestrictedPnf(0.5, 1e-9, kbar=40, neighbours="swap")]
    private: ClassVar = [
        (RestrictedPnf(epsilon, 0.1, kbar, relation), k) for relation in RELATIONS for epsilon, k, kbar in SETTINGS
    ]
    tight: ClassVar = 0.8

    def budget(self, mechanism: RestrictedPnf, k: int) -> tuple[Fraction, Fraction]:
        return Fraction(mechanism.epsilon) / 4, Fraction(mechanism.delta)

    def noise_and_scale(self, mechanism: RestrictedPnf, k: int, moved: int) -> tuple[str, Fraction]:
        return "flips", moved * k / (Fraction(mechanism.epsilon) * Fraction(3, 4))

    def order(self, mechanism: RestrictedPnf, head: np.ndarray, k: int, draw: Draw) -> np.ndarray:
        rounds = FlipRounds(Histogram.of(head), 1 / self.noise_and_scale(mechanism, k, drift_of(mechanism))[1], k, draw)
        return np.array([rounds.next() for _ in range(k)])
