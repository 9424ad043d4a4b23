from __future__ import annotations

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.histogram import Histogram, Named
from tests.transforms.mechanisms.test_pinned_answers import configurations

RANKS = np.arange(1, 1501)
VECTORS = {
    "stepped": RANKS * 7919 % 1511 * 3,
    "gapped": RANKS * 7919 % 1511 * 10**6,
    "zipf": 10**12 // RANKS,
    "crowded": np.where(RANKS % 3, 70_000, RANKS % 5),
    "large": np.array([2**62, 2**62 - 1, 2**62 - 1, 5, 2**61, 0, 1, 2**62, *range(2**53, 2**53 + 20)]),
}


@pytest.mark.parametrize("shape", VECTORS)
def test_a_vector_and_its_histogram_give_the_same_answer(shape: str) -> None:
    """A vector is looked at as far as a draw asks, a histogram is known: where noise is read must not depend on it."""
    counts = VECTORS[shape].astype(np.int64)
    table = Histogram.of(counts)
    for mechanism in configurations():
        if mechanism.guarantee.domain != "public" or mechanism.about.name == "joint-set" and mechanism.epsilon < 1:
            continue
        prepared = mechanism.prepare(table)
        for k in (1, 20):
            ranks = [
                select.ranks(k, RandomBits.keyed(b"front"))
                for select in (prepared, mechanism.prepare(Named.of(counts).histogram))
            ]
            assert ranks[0].tolist() == ranks[1].tolist(), (mechanism, k)
            assert len(set(ranks[0].tolist())) == k
            front = mechanism(counts, k, RandomBits.keyed(b"front"))
            assert sorted(counts[front].tolist()) == sorted(table.picks(ranks[0]).values.tolist())
