from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from private_topk.testing import Law
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.reals import precision
from private_topk.transforms.mechanisms.gamma import Gamma, _radius_floats, _radius_real
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.item_by_item import ItemByItem


class TestGamma(ItemByItem):
    mechanisms = [Gamma(1.0), Gamma(2.0, neighbours="swap")]
    most_items = 3

    def law(self, mechanism: Gamma, counts: tuple[int, ...], k: int) -> Law:
        return laws.gamma_order(counts, k, Fraction(mechanism.epsilon))

    @pytest.mark.parametrize("size", [2, 1000, 70_001])
    def test_the_float_radius_lies_within_its_bound(self, size: int) -> None:
        draw = RandomBits.keyed(b"radius").draw()
        radius, error = _radius_floats(size, draw)
        with precision(160):
            exact = _radius_real(size, draw)()
            assert abs(exact - radius) < exact * error
        assert error < 2.0**-34
        assert abs(radius - size) < 6 * np.sqrt(size)
