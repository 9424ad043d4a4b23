from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import pytest

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.bits import uniform_subset
from private_topk.transforms.testing import assert_follows, draws_to_see


@pytest.mark.parametrize(("n", "m"), [(5, 0), (5, 5), (5, 2), (6, 4)])
def test_subsets_are_uniform(n: int, m: int) -> None:
    draw = RandomBits.keyed(b"subsets").draw()
    law = {y: Fraction(1, math.comb(n, m)) for y in itertools.combinations(range(n), m)}
    seen = Counter(tuple(sorted(uniform_subset(draw, n, m))) for _ in range(draws_to_see(law, 0.07)))
    assert_follows(seen, law, 0.07)


def test_large_subsets_have_distinct_members() -> None:
    draw = RandomBits.keyed(b"large").draw()
    for n, m in ((10**15, 1000), (3000, 2900)):
        chosen = uniform_subset(draw, n, m)
        assert len(set(chosen)) == m and 0 <= min(chosen) <= max(chosen) < n
