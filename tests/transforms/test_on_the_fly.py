"""Counting as rows arrive against counting all at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms.columnar import make_table
from private_topk.transforms.contributions import CountOnTheFlyDoFn
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.parts import MANIFEST
from private_topk.transforms.plan import Layout
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.user_shards import UserShard

KEY = ReleaseKey.held(b"a key of the tests, no secret")
ITEMS = [f"item {n}" for n in range(300)]
DOMAINS = [PublicDomain.of(ITEMS), UnknownDomain()]


def streams(domain: PublicDomain | UnknownDomain, count: int, seed: int = 1) -> list[pa.RecordBatch]:
    state = np.random.RandomState(seed)
    found = []
    for _ in range(count):
        users = state.randint(0, 30, 200).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        items = np.minimum(state.geometric(0.05, 200), len(ITEMS)) - 1
        public = isinstance(domain, PublicDomain)
        found.append(
            make_table(
                user=users,
                item=items.astype(np.uint16) if public else pa.array([ITEMS[i] for i in items], pa.large_string()),
            )
        )
    return found


def counted(parts: object) -> dict[object, int]:
    total: dict[object, int] = {}
    for _, part in parts:
        for row in getattr(part, "table", part).to_pylist():
            total[row.get("item")] = total.get(row.get("item"), 0) + row.get("count", 0)
    total.pop(None, None)  # what manifests left
    return total


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
    times: list[object]

    def __init__(self) -> None:
        self.times = []

    def set(self, time: object) -> None:
        self.times.append(time)


class Window:
    def max_timestamp(self) -> int:
        return 7


@pytest.mark.parametrize("limit", [None, 2])
def test_the_state_is_bounded_by_distinct_pairs_and_ends_with_the_window(limit: int | None) -> None:
    domain = DOMAINS[0]
    counter = UserShard(Layout.of(domain), KEY, limit)
    step, pairs, held, end = CountOnTheFlyDoFn(counter, least=100), Bag(), Value(), Timer()
    parts = streams(domain, 100)
    for number, part in enumerate(parts, 1):
        step.process((0, part), Window(), pairs, held, end)
        distinct = len(counter.distinct(parts[:number]))
        assert sum(map(len, pairs)) <= 2 * max(distinct, 100)
    assert end.times == [7]
    emitted = list(step.count(0, pairs, held))
    assert counted(emitted) == counted(counter.counts(parts))
    assert not pairs, "nothing is kept of a window that has ended"
    step.process((0, parts[0]), Window(), pairs, held, end)
    assert not pairs and [place for place, _ in step.count(0, pairs, held)] == [MANIFEST], (
        "a row after the end must not be counted again"
    )
