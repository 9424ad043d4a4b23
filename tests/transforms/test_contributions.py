"""Counting as rows arrive, and by several threads, against counting all at once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms.columnar import make_table
from private_topk.transforms.combine import KeyedCounts, PartialCounts
from private_topk.transforms.completeness import Receipt, noted
from private_topk.transforms.contributions import CountOnArrivalDoFn, ShardCounter, _CountDoFn
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.release import ReleaseKey
from tests.transforms.pipelines import through
from tests.transforms.shards import shard_of

KEY = ReleaseKey.held(b"a key of the tests, no secret")
PARTITIONING = Partitioning.of(PublicDomain.of([f"item {n}" for n in range(300)]))


def counter_of(limit: int | None) -> ShardCounter:
    return ShardCounter(shard_of(PARTITIONING, KEY, limit), PARTITIONING, KEY)


def some_pieces(count: int) -> list[pa.RecordBatch]:
    state = np.random.RandomState(1)
    return [
        noted(
            make_table(
                user=state.randint(0, 30, 200).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15),
                item=(np.minimum(state.geometric(0.05, 200), 300) - 1).astype(np.uint16),
            ),
            share=share,
        )
        for share in range(1, count + 1)
    ]


def counted(elements: list[KeyedCounts]) -> tuple[Counter[int], list[Receipt]]:
    total: Counter[int] = Counter()
    for _, its in elements:
        if isinstance(its, PartialCounts):
            total.update(dict(zip(its.table["item"].to_pylist(), its.table["count"].to_pylist(), strict=True)))
    return total, [its for _, its in elements if isinstance(its, Receipt)]


class Bag(list):
    """What Beam gives for a bag or a single value, to look at."""

    read = lambda self: list(self)  # noqa: E731
    add = list.append


class Value:
    held: object = None

    def read(self) -> object:
        return self.held

    def write(self, value: object) -> None:
        self.held = value


class Timer:
    def __init__(self) -> None:
        self.times: list[object] = []

    def set(self, time: object) -> None:
        self.times.append(time)


class Window:
    def max_timestamp(self) -> int:
        return 7


@pytest.mark.parametrize("limit", [None, 2])
def test_the_state_is_bounded_by_distinct_pairs_and_ends_with_the_window(limit: int | None) -> None:
    counter = counter_of(limit)
    step, pairs, held, end = CountOnArrivalDoFn(counter, always_held=100), Bag(), Value(), Timer()
    pieces = some_pieces(60)
    for number, piece in enumerate(pieces, 1):
        step.process((0, piece), Window(), pairs, held, end)
        distinct = len(counter.user_shard.distinct(pieces[:number]))
        assert sum(map(len, pairs)) <= 2 * max(distinct, 100)
    assert end.times == [7]
    found = counted(list(step.count(0, pairs, held)))
    assert found == counted(list(counter.counted(0, pieces))) and found[1][0].rows == sum(range(61))
    assert not pairs, "nothing is kept of a window that has ended"
    step.process((0, pieces[0]), Window(), pairs, held, end)
    assert not pairs and counted(list(step.count(0, pairs, held)))[0] == {}, "a late row must not be counted again"


def test_each_user_shard_is_counted_separately() -> None:
    shards = [
        (shard, [make_table(user=np.arange(shard + 1, dtype=np.uint64), item=np.zeros(shard + 1, np.uint16))])
        for shard in range(9)
    ]
    found = through(_CountDoFn(counter_of(None), 4), shards)
    assert [its.table["count"].to_pylist() for _, its in found[::2]] == [[shard + 1] for shard in range(9)]
    assert [its.names for _, its in found[1::2]] == [Receipt.of_user_shard(shard, 0, 0).names for shard in range(9)]
