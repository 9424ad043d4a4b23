from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from flint import arb

from private_topk.testing import Law, assert_follows
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.discrete import discrete_laplace

DRAWS = 10_000


def law_of(log_weight: Fraction, power: int, reach: int = 400) -> Law:
    """P(x) in proportion to exp(-log_weight * |x|**power), on -reach .. reach; the rest is below 1e-30."""
    weights = {
        (x,): (-arb(log_weight.numerator) / log_weight.denominator * abs(x) ** power).exp()
        for x in range(-reach, reach + 1)
    }
    whole = sum(weights.values(), arb(0))
    return {x: w / whole for x, w in weights.items()}


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(0.1)])
def test_discrete_laplace_follows_its_law(scale: Fraction) -> None:
    draw = RandomBits.keyed(b"laplace").draw()
    seen = Counter((discrete_laplace(draw, scale),) for _ in range(DRAWS))
    assert_follows(seen, law_of(1 / scale, 1), 0.06)
