from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from private_topk.testing import Law, assert_follows, draws_to_see
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.gamma import Gamma
from tests.quick import smallest
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.item_by_item import ItemByItem


class TestGamma(ItemByItem):
    mechanisms = [Gamma(1.0), Gamma(2.0, neighbours="swap")]
    most_items = 3

    def law(self, mechanism: Gamma, counts: tuple[int, ...], k: int) -> Law:
        return laws.gamma_order(counts, k, Fraction(mechanism.epsilon))

    @pytest.mark.long
    def test_different_counts_of_one_block_follow_the_law(self) -> None:
        """Cuts lie 3 and more below the second count at this epsilon: 3 and 1 are read as one block."""
        counts, mechanism, bits = (9, 4, 3, 1, 0), Gamma(0.1), RandomBits.keyed(b"block")
        law = laws.gamma_order(counts, 2, Fraction(mechanism.epsilon))
        draws = draws_to_see(law, smallest(0.09))
        assert_follows(Counter(tuple(mechanism(counts, 2, bits).tolist()) for _ in range(draws)), law, smallest(0.09))
