from __future__ import annotations

import numpy as np
import pytest

from private_topk.transforms.mechanisms.exact import stretch as module
from private_topk.transforms.mechanisms.exact.stretch import Stretch

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("number", [1, 40, 3000, 100_000])
def test_items_of_a_count_are_numbered_by_index(number: int) -> None:
    items = np.sort(RNG.choice(10**6, number, replace=False))
    counts = 70_000 + RNG.integers(0, 1 + number // 3, number)
    stretch = Stretch(items, counts)
    values, sizes = np.unique(counts, return_counts=True)
    assert stretch.counts.tolist() == values[::-1].tolist() and stretch.sizes.tolist() == sizes[::-1].tolist()
    order = np.lexsort((items, -counts))
    ranks = RNG.permutation(number)
    firsts = np.cumsum(stretch.sizes) - stretch.sizes
    places = np.repeat(np.arange(len(values)), stretch.sizes)
    for some in (ranks, ranks[:3], ranks[:1]):
        named = stretch.named(stretch.counts[places[some]], some - firsts[places[some]])
        assert named.tolist() == items[order[some]].tolist()


def test_few_items_and_counts_far_apart_are_sorted() -> None:
    near = np.arange(module._MANY)
    assert Stretch.suits(near) and not Stretch.suits(near[1:])
    assert not Stretch.suits(near * module._SPREAD * 2)
