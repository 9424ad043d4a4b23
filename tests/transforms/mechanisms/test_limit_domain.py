from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.exact.accounting import exponential_share
from private_topk.transforms.mechanisms.limit_domain import LimitDomain
from private_topk.transforms.testing import Law
from tests.transforms.mechanisms.unknown_contract import UnknownContract
from tests.transforms.mechanisms.unknown_laws import Counts, above_bottom, drift_of, named, top


class TestLimitDomain(UnknownContract):
    mechanisms: ClassVar = [
        LimitDomain(1.0, 1e-6),
        LimitDomain(0.5, 1e-9, kbar=40, max_items_per_user=3, neighbours="swap"),
    ]
    private: ClassVar = [
        (LimitDomain(epsilon, 0.1, kbar, bound, relation), k)
        for relation in ("add-remove", "swap")
        for epsilon, k, kbar, bound in [(2.0, 1, 1, None), (0.5, 1, 2, None), (2.0, 2, 3, None), (3.0, 2, 2, 1)]
    ]
    followed: ClassVar = [
        (LimitDomain(3.0, 0.8, kbar=3), (6, 5, 5, 3, 1), 2),
        (LimitDomain(6.0, 0.8, kbar=4, neighbours="swap"), (0, 9, 7, 0, 6), 3),
    ]

    def law(self, mechanism: LimitDomain, counts: Counts, k: int) -> Law:
        drift, half = drift_of(mechanism), Fraction(mechanism.delta) / 2
        share = exponential_share(Fraction(mechanism.epsilon), half, k)
        bound = mechanism.max_items_per_user
        unstable = mechanism.kbar if bound is None else min(drift * bound, mechanism.kbar)
        items, (*largest, rest) = top(counts, mechanism.kbar)
        levels = [(c - rest - drift) * share / drift for c in largest]
        return named(items, above_bottom(levels, unstable / half, k, "gumbel"))

    def test_kbar_is_no_function_of_the_data(self) -> None:
        """Published code chooses it by the data and then prefers the worst threshold; here it is public."""
        assert [LimitDomain(1.0, 1e-6).kbar_for(k) for k in (1, 10, 11, 100)] == [100, 100, 110, 1000]
