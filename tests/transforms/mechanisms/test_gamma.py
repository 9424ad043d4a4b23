from __future__ import annotations

from fractions import Fraction

from private_topk.testing import Law
from private_topk.transforms.mechanisms.gamma import Gamma
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.item_by_item import ItemByItem


class TestGamma(ItemByItem):
    mechanisms = [Gamma(1.0), Gamma(2.0, neighbours="swap")]
    most_items = 3

    def law(self, mechanism: Gamma, counts: tuple[int, ...], k: int) -> Law:
        return laws.gamma_order(counts, k, Fraction(mechanism.epsilon))
