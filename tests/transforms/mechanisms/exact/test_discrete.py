from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.noisy_counts import discrete_laplace
from private_topk.transforms.testing import Law, assert_follows, draws_to_see


def law_of(rate: Fraction, reach: int = 400) -> Law:
    """P(x) in proportion to exp(-rate |x|), on -reach .. reach; the rest is below 1e-30."""
    weights = {(x,): math.exp(-rate * abs(x)) for x in range(-reach, reach + 1)}
    whole = math.fsum(weights.values())
    return {x: w / whole for x, w in weights.items()}


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7, 2), Fraction(0.1)])
def test_discrete_laplace_follows_its_law(scale: Fraction) -> None:
    draw = RandomBits.keyed(b"laplace").draw()
    law = law_of(1 / scale)
    seen = Counter((discrete_laplace(draw, scale),) for _ in range(draws_to_see(law, 0.06)))
    assert_follows(seen, law, 0.06)
