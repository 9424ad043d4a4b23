from __future__ import annotations

import numpy as np

from private_topk.transforms.mechanisms.weighted import UNIT, Weighting


def test_weights_keep_the_norm_and_lose_little() -> None:
    for whole, limit in [(1, 100), (20, 1000), (7, 7)]:
        weighting = Weighting(whole, limit, 0)
        norms = [items * weighting.weight(items) ** 2 for items in range(1, limit + 1)]
        assert max(norms) == whole * UNIT**2
        assert all(norm >= 0.999 * whole * UNIT**2 for norm in norms[whole:])
    pairs = np.array([0, 2, 2, 2, 1])
    assert Weighting(1, 3, 0).weights(pairs).tolist() == [UNIT, 37837, 37837, 37837, UNIT]
