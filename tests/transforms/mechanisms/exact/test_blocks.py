from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms.exact.histogram import Blocks, Histogram, Named, even_cuts, rising_cuts

VECTORS = [
    np.array([9, 7, 7, 4, 3, 0]),
    np.zeros(5, np.int64),
    np.full(40, 7000),
    np.random.default_rng(1).integers(0, 60_000, 3000),
    np.random.default_rng(2).integers(0, 2**61, 500),
    2**62 - np.random.default_rng(3).integers(0, 9, 500),
]


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("counts", VECTORS, ids=range(len(VECTORS)))
def test_blocks_cover_the_ranks_and_bound_their_counts(counts: np.ndarray, rounded: bool) -> None:
    ranked = np.sort(counts)[::-1]
    for k in {1, 2, len(counts) // 2, len(counts)}:
        for cuts in (
            [1, 4],
            even_cuts(Fraction(7, 3), 40, int(ranked[k - 1])),
            rising_cuts(Fraction(500), Fraction(2**60)),
        ):
            both = [Blocks.of(h, k, cuts, rounded) for h in (Histogram.of(counts), Named.of(counts).histogram)]
            for blocks in both:
                assert blocks.sizes.min() >= 1 and blocks.sizes.sum() == len(counts)
                bounds = np.repeat(blocks.bounds, blocks.sizes)
                assert (ranked <= bounds).all() and (np.diff(blocks.bounds[blocks.exact - 1 :]) < 0).all()
                whole = int(blocks.sizes[: blocks.exact].sum())
                assert (ranked[:whole] == bounds[:whole]).all() and whole >= k and blocks.least == ranked[k - 1]
                assert whole == len(counts) or ranked[whole] < ranked[k - 1]
                assert blocks.starts.tolist() == (np.cumsum(blocks.sizes) - blocks.sizes).tolist()
            # They say where noise is read, so a vector and its histogram must agree on them.
            assert both[0].bounds.tolist() == both[1].bounds.tolist()
            assert both[0].sizes.tolist() == both[1].sizes.tolist()


def test_the_example() -> None:
    blocks = Blocks.of(Histogram.of(VECTORS[0]), 2, [1, 4])
    assert blocks.bounds.tolist() == [9, 7, 5, 2] and blocks.sizes.tolist() == [1, 2, 2, 1] and blocks.exact == 2


def test_cuts() -> None:
    assert even_cuts(Fraction(3, 2), 4, 100) == [2, 3, 5, 6] and even_cuts(Fraction(10), 9, 25) == [10, 20, 30]
    assert even_cuts(Fraction(1, 10**300), 3, 9) == [1, 1, 1] and even_cuts(Fraction(10**300), 3, 9) == [10**300]
    assert rising_cuts(Fraction(1, 9), Fraction(4)) == (1, 2, 3, 4)
    assert rising_cuts(Fraction(100), Fraction(115)) == (100, 106, 112, 119)
