from __future__ import annotations

from fractions import Fraction
from functools import partial

from private_topk.transforms.mechanisms.gamma import Gamma
from private_topk.transforms.testing import SMALL_COUNTS, Law, check_law, max_log_ratio, neighbours
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.item_by_item import ItemByItem


class TestGamma(ItemByItem):
    mechanisms = [Gamma(1.0), Gamma(2.0, neighbours="swap")]
    drawn = (2,)
    grid = [counts for counts in SMALL_COUNTS if len(counts) <= 3]

    def law(self, mechanism: Gamma, counts: tuple[int, ...], k: int) -> Law:
        return laws.gamma_order(counts, k, Fraction(mechanism.epsilon))

    def test_different_counts_of_one_block_follow_the_law(self) -> None:
        """Cuts lie 3 and more below the second count at this epsilon: 3 and 1 are read as one block."""
        mechanism = Gamma(0.1)
        check_law(mechanism, partial(self.law, mechanism), (9, 4, 3, 1, 0), [2], smallest_error=0.09)

    def test_either_of_a_swaps_draws_costs_half(self) -> None:
        """A user who leaves one ranking and enters another changes both as one who comes or goes."""
        mechanism = Gamma(1.0, "swap")
        for counts in [(2, 1), (3, 3, 3), (4, 3, 1, 0)]:
            for moved in neighbours(counts):
                for k in (1, 2):
                    here, there = (self.law(mechanism, of, k) for of in (counts, moved))
                    assert max_log_ratio(here, there) <= 0.5 + 1e-7
