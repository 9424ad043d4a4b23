from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms.exact.histogram import (
    Blocks,
    CountLookup,
    Histogram,
    IndexedCounts,
    even_cuts,
    rising_cuts,
)
from tests.laws import SMALL_COUNTS

VECTORS = [
    *map(np.array, SMALL_COUNTS),
    np.arange(1000) * 37 % 91,
    np.arange(500) * 37 % 91 * 2**56,
    np.concatenate([np.arange(3000) % 7, [65_535, 65_536, 2**63 - 1, 2**63 - 1, 70_000, 0, 65_536]]),
    np.full(5000, 3),
    np.arange(4000) * 997 % 4001,
    np.arange(1000) * 10**12,
]


@pytest.mark.parametrize("counts", VECTORS, ids=range(len(VECTORS)))
def test_ranks_are_by_count_then_index(counts: np.ndarray) -> None:
    order = np.lexsort((np.arange(len(counts)), -counts))
    named = IndexedCounts.of(counts)
    assert named.items(np.arange(len(counts))).tolist() == order.tolist()
    rng = np.random.default_rng(len(counts))
    for size in {1, min(3, len(counts)), len(counts) // 2}:
        ranks = rng.permutation(len(counts))[:size]
        assert named.items(ranks).tolist() == order[ranks].tolist()


@pytest.mark.parametrize("counts", VECTORS, ids=range(len(VECTORS)))
def test_a_histogram_answers_what_sorted_counts_do(counts: np.ndarray) -> None:
    table, ranked = Histogram.of(counts), np.sort(counts)[::-1]
    values, sizes = np.unique(counts, return_counts=True)
    assert table.values.tolist() == values[::-1].tolist() and table.sizes.tolist() == sizes[::-1].tolist()
    assert table.items == len(counts) and table.counts().tolist() == ranked.tolist()
    for k in {1, len(counts) // 2 + 1, len(counts)}:
        assert table.top(k).tolist() == ranked[:k].tolist() and table.bottom(k).tolist() == ranked[-k:].tolist()
    assert table.largest == ranked[0] and table.smallest == ranked[-1]
    for least in (-5, 0, 3, int(ranked[0]), 2**63 - 1):
        assert table.at_least(np.array([least]))[0] == (counts >= least).sum()
        some, ends = table.down_to(least)
        assert some.tolist() == values[values >= least][::-1].tolist()
        assert ends.tolist() == [(counts >= value).sum() for value in some]
    assert table.counts_at(np.arange(len(counts))).tolist() == ranked.tolist()


@pytest.mark.parametrize(
    ("values", "sizes", "message"),
    [
        ([], [], "one size for each value"),
        ([3, 2], [1], "one size for each value"),
        ([2, 3], [1, 1], "decreasing values"),
        ([3, 3], [1, 1], "decreasing values"),
        ([3, -1], [1, 1], "values of at least 0"),
        ([3, 2], [1, 0], "sizes of at least 1"),
    ],
)
def test_an_invalid_histogram_is_refused(values: list[int], sizes: list[int], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Histogram(np.array(values, np.int64), np.array(sizes, np.int64))
    with pytest.raises(TypeError, match="integers"):
        Histogram(np.array([1.5]), np.array([1]))


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint32, np.uint64, ">i8"])
def test_any_integers_are_counted_as_they_are(kind: object) -> None:
    given = np.array([3, 0, 120, 3, 0, 3], kind)
    for counts in (given, given[::-1], given.tolist()):
        table = Histogram.of(counts)
        assert (table.values.tolist(), table.sizes.tolist()) == ([120, 3, 0], [1, 3, 2])


def test_counts_at_ranks_above_and_below_its_end() -> None:
    counts = np.random.default_rng(1).integers(0, 4000, 900)
    lookup = CountLookup(Histogram.of(counts), 2500)
    assert [lookup.count_at(rank) for rank in range(900)] == np.sort(counts)[::-1].tolist()


CUT = [
    np.array([9, 7, 7, 4, 3, 0]),
    np.zeros(5, np.int64),
    np.full(40, 7000),
    np.random.default_rng(1).integers(0, 60_000, 3000),
    np.random.default_rng(2).integers(0, 2**61, 500),
    2**62 - np.random.default_rng(3).integers(0, 9, 500),
]


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("counts", CUT, ids=range(len(CUT)))
def test_blocks_cover_the_ranks_and_bound_their_counts(counts: np.ndarray, rounded: bool) -> None:
    ranked = np.sort(counts)[::-1]
    for k in {1, 2, len(counts) // 2, len(counts)}:
        for cuts in (
            [1, 4],
            even_cuts(Fraction(7, 3), 40, int(ranked[k - 1])),
            rising_cuts(Fraction(500), Fraction(2**60)),
        ):
            blocks = Blocks.of(Histogram.of(counts), k, cuts, rounded)
            assert blocks.sizes.min() >= 1 and blocks.sizes.sum() == len(counts)
            bounds = np.repeat(blocks.bounds, blocks.sizes)
            assert (ranked <= bounds).all() and (np.diff(blocks.bounds[blocks.exact - 1 :]) < 0).all()
            whole = int(blocks.sizes[: blocks.exact].sum())
            assert (ranked[:whole] == bounds[:whole]).all() and whole >= k and blocks.least == ranked[k - 1]
            assert whole == len(counts) or ranked[whole] < ranked[k - 1]
            assert blocks.starts.tolist() == (np.cumsum(blocks.sizes) - blocks.sizes).tolist()


def test_blocks_of_the_documented_example() -> None:
    blocks = Blocks.of(Histogram.of(CUT[0]), 2, [1, 4])
    assert blocks.bounds.tolist() == [9, 7, 5, 2] and blocks.sizes.tolist() == [1, 2, 2, 1] and blocks.exact == 2


def test_even_and_rising_cuts_at_known_values() -> None:
    assert even_cuts(Fraction(3, 2), 4, 100) == [2, 3, 5, 6] and even_cuts(Fraction(10), 9, 25) == [10, 20, 30]
    assert even_cuts(Fraction(1, 10**300), 3, 9) == [1, 1, 1] and even_cuts(Fraction(10**300), 3, 9) == [10**300]
    assert rising_cuts(Fraction(1, 9), Fraction(4)) == (1, 2, 3, 4)
    assert rising_cuts(Fraction(100), Fraction(115)) == (100, 106, 112, 119)
