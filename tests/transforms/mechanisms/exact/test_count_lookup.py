from __future__ import annotations

import numpy as np
import pytest

from private_topk.transforms.mechanisms.exact.histogram import CountLookup, Histogram, Named


@pytest.mark.parametrize("unit", [1, 100, 10**9])
def test_look_ups_by_table_and_by_search_are_what_counting_gives(unit: int) -> None:
    counts = np.random.default_rng(1).integers(0, 4000, 900) * unit
    for histogram in (Histogram.of(counts), Named.of(counts).histogram):
        for least in (0, 1700 * unit + 1, int(counts.max()), int(counts.max()) + 1):
            lookup = CountLookup(histogram, least)
            asked = np.sort([x for x in counts.tolist() if x >= least] + [least])[::-1]
            lower = np.maximum(asked[:, None] - np.array([0, 1, 40 * unit, 2 * unit]), least)
            assert lookup.at_least(lower).tolist() == [[(counts >= x).sum() for x in row] for row in lower.tolist()]


def test_counts_at_ranks_above_and_below_its_end() -> None:
    counts = np.random.default_rng(1).integers(0, 4000, 900)
    lookup = CountLookup(Named.of(counts).histogram, 2500)
    assert [lookup.count_at(rank) for rank in range(900)] == np.sort(counts)[::-1].tolist()
