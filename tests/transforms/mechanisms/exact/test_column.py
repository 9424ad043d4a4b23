from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from private_topk.transforms.mechanisms.exact import column as module
from private_topk.transforms.mechanisms.exact import tally
from private_topk.transforms.mechanisms.exact.column import Column

RNG = np.random.default_rng(5)
VECTORS = [
    np.array([0]),
    np.array([2**63 - 1, 0, 5, 2**63 - 1, 2**63 - 2, 2**63 - 513]),
    RNG.integers(0, 5, 400),
    RNG.integers(0, 3000, 400) // RNG.integers(1, 900, 400),
    RNG.integers(900, 1200, 400),
    RNG.integers(2040, 6100, 400),
    2**41 + RNG.integers(0, 50, 300),
    (1 << RNG.integers(0, 62, 300)) - RNG.integers(0, 2, 300),
    np.where(RNG.random(300) < 0.5, 100_000, 0),
    RNG.choice([100_000, 100_001, 70_000, 90_000, 5], 300, p=[0.5, 0.1, 0.2, 0.1, 0.1]),
]


@pytest.mark.parametrize(("chunk", "kept"), [(64, 1 << 18), (64, 0), (1 << 16, 1 << 18)])
@pytest.mark.parametrize("counts", VECTORS, ids=range(len(VECTORS)))
def test_whatever_is_asked_in_whatever_order(
    counts: np.ndarray, chunk: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was looked at before must not show in an answer, nor whether the vector is a long one."""
    monkeypatch.setattr(tally, "_CHUNK", chunk)
    monkeypatch.setattr(tally, "_PART", chunk)
    monkeypatch.setattr(tally, "_STRIP", chunk // 4)
    monkeypatch.setattr(tally, "_KEPT", kept)
    monkeypatch.setattr(module, "_SEPARATELY", 3)
    d, rng = len(counts), np.random.default_rng(len(counts))
    order = np.lexsort((np.arange(d), -counts))
    ranked = counts[order]
    near = np.concatenate((counts, counts[counts > 0] - 1, counts[counts < 2**62] + 1, [0, 2**63 - 1]))

    def top(column: Column) -> None:
        k = int(rng.integers(1, d + 1))
        assert column.top(k).tolist() == ranked[:k].tolist() and column.largest == ranked[0]

    def at_least(column: Column) -> None:
        some = rng.choice(near, 6)
        assert column.at_least(some).tolist() == [(counts >= x).sum() for x in some]

    def ranks(column: Column) -> None:
        some = rng.permutation(d)[: int(rng.integers(1, d + 1))]
        assert column.counts_at(some).tolist() == ranked[some].tolist() and column.smallest == ranked[-1]
        assert column.items_at(some).tolist() == order[some].tolist()

    def between(column: Column) -> None:
        some = rng.permutation(d)[: int(rng.integers(1, d + 1))]
        least, most = column.between(some)
        assert (least <= ranked[some]).all() and (ranked[some] <= most).all()
        assert ((least == most) | (most - least <= ranked[some] >> 10)).all(), "within a key"

    def head(column: Column) -> None:
        least = int(rng.choice(near))
        values, ends = column.head(least)
        assert (
            np.repeat(values, np.diff(ends, prepend=0)).tolist()
            == ranked[ranked >= max(least, column.tally.own)].tolist()
        )
        assert (np.diff(values) < 0).all()

    for _ in range(12):
        column = Column(counts)
        for place in rng.integers(0, 5, 6).tolist():
            (top, at_least, ranks, head, between)[place](column)


def test_easy_counts_are_looked_at_as_often_as_others() -> None:
    """Of as many items; hardly any for few, where a draw is quick whatever the counts are."""
    hard = RNG.integers(0, 10**6, 5000)
    for counts in (np.zeros(5000, np.int64), np.full(5000, 10**6), hard, hard // 1000):
        column = Column(counts)
        column.items_at(np.arange(0, 5000, 50))
        assert column.tally.looks >= 10
    easy = Column(np.zeros(5000, np.int64))
    easy.items_at(np.arange(5))
    assert easy.tally.looks == 4


def test_the_largest_are_named_without_another_look() -> None:
    """And those of one count that many items have are not among what was looked at."""
    counts = np.concatenate((RNG.integers(2 * 10**5, 10**6, 100), np.full(3000, 10**5), RNG.integers(0, 9, 3000)))
    column = Column(counts)
    column.top(100)
    looks = column.tally.looks
    order = np.lexsort((np.arange(len(counts)), -counts))
    assert column._members(column._keys_at(np.arange(100)), np.arange(100)).tolist() == order[:100].tolist()
    assert column.tally.looks == looks
    assert column.items_at(np.arange(90, 150)).tolist() == order[90:150].tolist()


def test_counting_takes_next_to_no_memory_beside_the_counts() -> None:
    counts = (np.arange(3_000_000) * 7919 % 11_000).astype(np.int64)
    tracemalloc.start()
    column = Column(counts)
    column.top(100)
    column.items_at(np.arange(0, 3_000_000, 300_011))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 << 20, "the counts are 24 MB"
