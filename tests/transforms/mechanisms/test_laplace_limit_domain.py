from __future__ import annotations

import itertools
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms.exact import noise
from private_topk.transforms.mechanisms.exact.accounting import largest_delta_q
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.laplace_limit_domain import LaplaceLimitDomain
from private_topk.transforms.testing import Law, max_log_ratio
from tests.transforms.mechanisms.unknown_contract import SampledContract
from tests.transforms.mechanisms.unknown_laws import Counts, above_bottom, drift_of, named, top


class TestLaplaceLimitDomain(SampledContract):
    mechanisms: ClassVar = [
        LaplaceLimitDomain(1.0, 1e-6, 5),
        LaplaceLimitDomain(0.5, 1e-9, 50, kbar=40, neighbours="swap"),
    ]
    private: ClassVar = [
        (LaplaceLimitDomain(epsilon, 0.1, bound, kbar, relation), k)
        for relation in ("add-remove", "swap")
        for epsilon, k, kbar, bound in [(2.0, 1, 1, 1), (0.5, 1, 2, 2), (2.0, 2, 3, 1), (1.0, 2, 3, 4), (3.0, 3, 3, 2)]
    ]
    tight: ClassVar = 0.8

    def numbers(self, mechanism: LaplaceLimitDomain, k: int) -> tuple[int, Fraction, Fraction]:
        """By how much differences move, the scale and the odds."""
        drift, bound = drift_of(mechanism), mechanism.max_items_per_user
        unstable = min(drift * bound, mechanism.kbar_for(k))
        scale = drift * min(k, bound) / Fraction(mechanism.epsilon)
        return drift, scale, 1 / largest_delta_q(Fraction(mechanism.delta) / unstable)

    def law(self, mechanism: LaplaceLimitDomain, counts: Counts, k: int) -> Law:
        drift, scale, odds = self.numbers(mechanism, k)
        items, (*largest, rest) = top(counts, mechanism.kbar)
        return named(items, above_bottom([(c - rest - drift) / scale for c in largest], odds, k, "laplace"))

    def sampler(self, mechanism: LaplaceLimitDomain, head: np.ndarray, k: int, draw: Draw) -> np.ndarray:
        """Whose frequencies are compared in exact/test_crossing."""
        drift, scale, odds = self.numbers(mechanism, k)
        return noise.above_bottom(head, drift, scale, "laplace", odds, k, draw)

    @pytest.mark.parametrize(("bound", "k"), [(1, 3), (2, 3), (3, 2)])
    def test_bound_over_scale_is_spent_and_no_more(self, bound: int, k: int) -> None:
        """The published proof needs (bound + 1) / scale: bound moved counts and the bar. On all moves of kbar = 3 slots
        and bar that one user's items allow (no more than bound of the four largest counts), bound / scale suffices,
        min(k, bound) in general; and some move takes nearly all of it."""
        epsilon, start, worst = Fraction(3), (5, 5, 4, 3), 0.0
        scale, odds = min(k, bound) / epsilon, Fraction(20)
        for moves in itertools.product((0, 1), repeat=4):
            if not 0 < sum(moves) <= bound:
                continue
            laws = []
            for *largest, rest in (start, tuple(c + m for c, m in zip(start, moves, strict=True))):
                laws.append(above_bottom([(c - rest - 1) / scale for c in largest], odds, k, "laplace"))
            worst = max(worst, max_log_ratio(*laws))
        assert 0.8 * float(epsilon) <= worst <= float(epsilon) * (1 + 1e-12)
