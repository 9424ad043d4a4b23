"""Counting as rows arrive against counting all at once."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from private_topk.transforms.columnar import make_table
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.keys import ReleaseKey
from private_topk.transforms.layout import Layout
from private_topk.transforms.on_the_fly import CountOnTheFlyDoFn
from private_topk.transforms.parts import MANIFEST, PlacedPart
from private_topk.transforms.sharding import ShardedPairs
from private_topk.transforms.user_shard import UserShard

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


def by_hand(parts: list[pa.RecordBatch], limit: int | None) -> dict[object, int] | int:
    """Plain Python: the counts without a limit, or how many pairs a limit leaves."""
    pairs = {(row["user"], row["item"]) for part in parts for row in part.to_pylist()}
    if limit is None:
        return {item: sum(1 for pair in pairs if pair[1] == item) for item in {pair[1] for pair in pairs}}
    users = {user for user, _ in pairs}
    return sum(min(limit, sum(1 for pair in pairs if pair[0] == user)) for user in users)


@pytest.mark.parametrize("limit", [None, 1, 5])
@pytest.mark.parametrize("domain", DOMAINS, ids=["public", "unknown"])
def test_compacting_changes_no_count(domain: PublicDomain | UnknownDomain, limit: int | None) -> None:
    counter, parts = UserShard(Layout.of(domain), KEY, limit), streams(domain, 12)
    at_once = counted(counter.counts(parts))
    held: list[pa.RecordBatch] = []
    for number, part in enumerate(parts):
        held.append(part)
        if number % 3 == 2:
            held = [counter.distinct(held)]
    assert counted(counter.counts(held)) == at_once
    expected = by_hand(parts, limit)
    assert (at_once if limit is None else sum(at_once.values())) == expected


@pytest.mark.parametrize("least", [1, 700, 10**9])
@pytest.mark.parametrize("domain", DOMAINS, ids=["public", "unknown"])
def test_state_and_timer_give_the_counts_of_every_window(domain: PublicDomain | UnknownDomain, least: int) -> None:
    counter, parts, found = UserShard(Layout.of(domain), KEY, 4), streams(domain, 20), Seen()
    rows = [TimestampedValue((number % 2, part), 10 * (number % 3)) for number, part in enumerate(parts)]
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        typed = pipeline | beam.Create(rows) | beam.Map(lambda row: row).with_output_types(ShardedPairs)
        count = beam.ParDo(CountOnTheFlyDoFn(counter, least)).with_output_types(PlacedPart)
        _ = typed | beam.WindowInto(FixedWindows(10)) | count | beam.ParDo(found)
    for window in range(3):
        expected = [part for shard in range(2) for part in counter.counts(
            [part for number, part in enumerate(parts) if number % 3 == window and number % 2 == shard])]  # fmt: skip
        assert counted(Seen.parts[10 * window]) == counted(expected)


class Seen(beam.DoFn):
    parts: dict[int, list[PlacedPart]] = {}

    def __init__(self) -> None:
        Seen.parts = {}

    def process(self, element: PlacedPart, window: object = beam.DoFn.WindowParam) -> None:  # noqa: B008
        Seen.parts.setdefault(int(window.start), []).append(element)


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
