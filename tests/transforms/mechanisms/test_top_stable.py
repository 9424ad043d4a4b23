from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import numpy as np

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.accounting import exponential_share, largest_delta_q
from private_topk.transforms.mechanisms.top_stable import TopStable
from private_topk.transforms.testing import Law
from tests.transforms.mechanisms.unknown_contract import UnknownContract
from tests.transforms.mechanisms.unknown_laws import Counts, drift_of, named, top, top_stable


class TestTopStable(UnknownContract):
    mechanisms: ClassVar = [TopStable(1.0, 1e-6), TopStable(0.5, 1e-9, kbar=40, neighbours="swap")]
    private: ClassVar = [
        (TopStable(epsilon, 0.1, kbar, relation), k)
        for relation in ("add-remove", "swap")
        for epsilon, k, kbar in [(2.0, 1, 1), (0.5, 2, 2), (3.0, 1, 2), (2.0, 2, 3), (1.0, 1, 4), (4.0, 3, 3)]
    ]
    followed: ClassVar = [
        (TopStable(4.0, 0.8, kbar=3), (9, 9, 6, 1, 1), 2),
        (TopStable(6.0, 0.8, kbar=4, neighbours="swap"), (0, 9, 7, 0, 6), 1),
    ]
    tight: ClassVar = 0.8

    def law(self, mechanism: TopStable, counts: Counts, k: int) -> Law:
        drift, kbar = drift_of(mechanism), mechanism.kbar
        parts = 1 if kbar == k else 2
        epsilon, delta = Fraction(mechanism.epsilon) / parts, Fraction(mechanism.delta) / parts
        items, largest = top(counts, kbar)
        q, share = largest_delta_q(delta / kbar), exponential_share(epsilon, delta, k)
        return named(items, top_stable(largest, k, drift, 3 * drift / epsilon, q, share), as_set=True)

    def test_gap_below_the_released_items_is_the_one_tested(self) -> None:
        """Public code tests the gap one position lower. That answers (0,) here and (1,) on a neighbour."""
        mechanism, bits = TopStable(1.0, 1e-6), RandomBits.keyed(b"gap")
        for counts in ([10**6, 10**6, 0], [10**6, 10**6 + 1, 0], [10**6 + 1, 10**6, 0]):
            assert all(len(mechanism(counts, 1, bits)) == 0 for _ in range(50))
        assert all(mechanism([10**6, 10**6, 0], 2, bits).tolist() == [0, 1] for _ in range(50))

    def test_larger_sizes_draw_k_of_them(self) -> None:
        mechanism, bits = TopStable(2.0, 1e-6, kbar=3), RandomBits.keyed(b"sizes")
        answers = {tuple(mechanism([10**6] * 3, 2, bits).tolist()) for _ in range(100)}
        assert answers == {(0, 1), (0, 2), (1, 2)}

    def test_default_kbar_leaves_the_budget_to_the_search(self) -> None:
        assert [TopStable(1.0, 1e-6).kbar_for(k) for k in (1, 10, 500)] == [1, 10, 500]
        few, many = (TopStable(1.0, 1e-6, kbar) for kbar in (2, 3))
        counts, bits = np.array([500, 480, 432, 431]), RandomBits.keyed(b"budget")
        sizes = [sum(len(m(counts, 2, bits)) for _ in range(50)) for m in (few, many)]
        assert sizes[0] > sizes[1]
