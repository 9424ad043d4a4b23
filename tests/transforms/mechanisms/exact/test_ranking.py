from __future__ import annotations

import itertools

import numpy as np

from private_topk.testing import SMALL_COUNTS
from private_topk.transforms.mechanisms.exact.ranking import rank


def test_ranks_are_by_count_then_index() -> None:
    for counts in [*map(np.array, SMALL_COUNTS), np.arange(1000) * 37 % 91, np.arange(500) * 37 % 91 * 2**56]:
        order = np.lexsort((np.arange(len(counts)), -counts))
        ranking = rank(counts)
        assert ranking.items(np.arange(len(counts))).tolist() == order.tolist()
        assert ranking.ascending.tolist() == sorted(counts.tolist())
        for k in (1, len(counts)):
            assert ranking.top(k).tolist() == counts[order][:k].tolist()
    edge = np.array([2**63 - 1, 0, 2**63 - 1])
    assert rank(edge).items(np.arange(3)).tolist() == [0, 2, 1]
    assert list(itertools.chain(rank(np.array([2**62])).items(np.array([0])))) == [0]
