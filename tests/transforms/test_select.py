"""The final stage: what is drawn from is what one vector of all counts would be, and every rank names its item."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

import private_topk
from private_topk.pipelines.process import RunFailed
from private_topk.transforms import select
from private_topk.transforms.columnar import make_table
from private_topk.transforms.combine import PartialCounts
from private_topk.transforms.completeness import NOTHING, Counted, Fingerprint, Receipt
from private_topk.transforms.domain import PublicDomain, RangeDomain, UnknownDomain
from private_topk.transforms.errors import WorkerRefusal
from private_topk.transforms.mechanisms import MECHANISMS, Joint, RandomBits, WeightedOrder
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts
from private_topk.transforms.plan import ITEM_SHARD_BITS, Execution, Partitioning, plan
from private_topk.transforms.release import Release, ReleaseKey, release_seed
from private_topk.transforms.select import RankingKey, WindowCounts, _SelectDoFn, by_window, rank
from private_topk.transforms.spec import TopK
from private_topk.transforms.user_shards import UserShard
from private_topk.transforms.windows import Period, WindowBounds, from_microseconds
from tests.nightly import nightly
from tests.transforms.pipelines import added_up

SELECTION = TopK(2, Joint(epsilon=1.0), PublicDomain.of(["a", "b", "c"]), 5)
HIDDEN = TopK(2, MECHANISMS["limit-domain"](epsilon=1.0, delta=0.1), UnknownDomain())
PANE = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
RELEASE = Release(ReleaseKey.held(b"selection".ljust(32, b".")), "two rounds")

SIZE = (5 << ITEM_SHARD_BITS) // 2
LAYOUTS = {"one shard": Partitioning(300, 5), "three shards": Partitioning(SIZE, 3), "one window": Partitioning(SIZE)}


def some_counts(layout: Partitioning, window: int) -> np.ndarray:
    """A vector of all counts, most of them 0; in the last window all of them, and in that before none of shard 1."""
    rng = np.random.default_rng(window)
    counts = np.zeros(layout.size, np.int64)
    if window < layout.windows - 1 or layout.windows == 1:
        codes = np.append(rng.choice(layout.size, 60, replace=False), [0, layout.size - 1])
        counts[codes] = rng.integers(1, 6, len(codes))
        if layout.windows == 3 and window == 1:
            counts[1 << ITEM_SHARD_BITS : 2 << ITEM_SHARD_BITS] = 0
    return counts


def totals_of(layout: Partitioning, shard: int) -> pa.RecordBatch:
    codes = layout.codes(shard)
    parts = [some_counts(layout, window)[codes.start : codes.stop] for window in range(layout.windows)]
    window = np.concatenate([np.full(np.count_nonzero(part), number) for number, part in enumerate(parts)])
    item = np.concatenate([np.flatnonzero(part) + codes.start for part in parts])
    count = np.concatenate([part[part > 0] for part in parts])
    column = {"window": window.astype(np.uint32)} if layout.windows > 1 else {}
    return make_table(**column, item=item.astype(layout.item_type), count=count)


@pytest.mark.parametrize("name", LAYOUTS)
def test_tables_of_shards_equal_one_vector_of_counts(name: str) -> None:
    layout = LAYOUTS[name]
    spec = TopK(1, Joint(1.0), RangeDomain(0, layout.size))
    tables = [totals_of(layout, shard) for shard in range(layout.item_shards)]
    pieces = [table.slice(start, 7) for table in tables for start in range(0, len(table), 7)]
    digests = set()
    for turned in (tables, tables[::-1], pieces[::-1]):
        windows = by_window(turned, range(layout.windows)) if layout.windows > 1 else [(0, turned)]
        for window, some in windows:
            found, named = WindowCounts.of(spec, some), IndexedCounts.of(some_counts(layout, window))
            digests.add(found.digest)
            assert found.histogram.values.tolist() == named.histogram.values.tolist()
            assert found.histogram.sizes.tolist() == named.histogram.sizes.tolist()
            ranks = np.unique(np.append(np.arange(min(100, layout.size)), [layout.size // 2, layout.size - 1]))
            assert found.items(ranks[::-1]).tolist() == named.items(ranks[::-1]).tolist()
    assert len(digests) == layout.windows


def test_other_counts_or_items_have_another_digest() -> None:
    spec = TopK(1, Joint(1.0), RangeDomain(0, 9))
    columns = {"item": np.array([3, 4], np.uint32), "count": [70, 70]}
    changes = ({}, {"item": np.array([3, 5], np.uint32)}, {"count": [70, 71]})
    found = {WindowCounts.of(spec, [make_table(**{**columns, **change})]).digest for change in changes}
    assert len(found) == 3 and WindowCounts.of(spec, []).digest not in found
    labels = [pa.array(["a", other], pa.large_string()) for other in "bc"]
    one, other = (WindowCounts.of(HIDDEN, [make_table(item=some, count=[70, 70])]).digest for some in labels)
    assert one != other


def test_the_largest_counts_of_an_unknown_domain_do_not_depend_on_the_shards() -> None:
    """In the order of the labels' bytes, and cut to what the mechanism looks at: more of a shard changes nothing."""
    keep = HIDDEN.head()
    assert keep is not None
    labels = [f"é{n}" if n % 3 else f"{n}" for n in range(keep + 5)]
    counts = {label: 50 - n // 2 for n, label in enumerate(labels)}
    head = sorted(counts, key=lambda label: (-counts[label], label.encode()))[:keep]
    seen = set()
    for cut in (1, 3, len(labels)):
        tables = []
        for n in range(cut):
            some = labels[n::cut]
            tables.append(make_table(item=pa.array(some, pa.large_string()), count=[counts[label] for label in some]))
        found = WindowCounts.of(HIDDEN, tables)
        assert found.labels(found.items(np.arange(keep))).to_pylist() == head
        seen.add(found.digest)
    counts[head[-1]] += 1
    whole = make_table(item=pa.array(labels, pa.large_string()), count=list(counts.values()))
    seen.add(WindowCounts.of(HIDDEN, [whole]).digest)
    seen.add(WindowCounts.of(HIDDEN, []).digest)
    assert len(seen) == 3


@pytest.mark.parametrize("size", [1, 10, 1 << 40])
def test_no_counts_are_a_histogram_of_zeros(size: int) -> None:
    found = WindowCounts.of(TopK(1, Joint(1.0), RangeDomain(0, size)), [])
    assert found.histogram.values.tolist() == [0] and found.histogram.sizes.tolist() == [size]
    assert found.items(np.array([size - 1])).tolist() == [size - 1]


def some_pairs() -> np.ndarray:
    """Users and items, (n, 2): of the first and the last of three item shards."""
    rng = np.random.default_rng(5)
    items = np.append(rng.integers(0, 30, 400), rng.integers(SIZE - 30, SIZE, 400))
    return np.unique(np.stack([rng.integers(0, 90, 800) ** 2 // 90, items], axis=1), axis=0)


def totals_of_pairs(pairs: np.ndarray, mechanism: WeightedOrder) -> list[pa.RecordBatch]:
    """By the pipeline's functions, from two user shards."""
    layout = Partitioning(SIZE)
    shard = UserShard(TopK(1, mechanism, RangeDomain(0, SIZE)), layout, RELEASE.key)
    counted: list[tuple[int, pa.RecordBatch]] = []
    for half in (0, 1):
        own = pairs[pairs[:, 0] % 2 == half]
        table = make_table(user=own[:, 0].astype(np.uint64), item=own[:, 1].astype(layout.code_type))
        counted += shard.counts([table])
    return added_up(counted, layout)


@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 7), (50.0, 60), (1000.0, 3)])
def test_a_ranking_of_weights_is_the_draw_from_their_sums(epsilon: float, k: int) -> None:
    """Of sums added up here; with k = 60 also items that nobody holds."""
    mechanism = WeightedOrder(epsilon, 0.01, 200, whole_items=2)
    spec = TopK(k, mechanism, RangeDomain(0, SIZE))
    pairs, totals = some_pairs(), totals_of_pairs(some_pairs(), mechanism)
    sums = np.zeros(SIZE, np.int64)
    for user in np.unique(pairs[:, 0]):
        its = pairs[pairs[:, 0] == user, 1]
        sums[its] += mechanism.weighting.weight(len(its))
    of = RankingKey(WindowBounds(), None)
    for some in (totals, totals[::-1]):
        counted = WindowCounts.of(spec, some)
        seed = release_seed(RELEASE, of.label(), spec.parameters(), counted.digest)
        wanted = mechanism(sums, k, RandomBits.keyed(seed))
        found = rank(spec, RELEASE, of, counted)
        assert found.items == tuple(map(str, wanted.tolist())) and found.noisy_weights is None is found.noisy_counts


def drawn_from(release: Release, tables: list[pa.RecordBatch]) -> list[Counted]:
    """What the draw is handed of the only user shard."""
    fingerprint = Fingerprint(release.key)
    receipt = Receipt.of_user_shard(0, 0, sum(map(fingerprint.of, tables)))
    return [*map(PartialCounts, tables), receipt, NOTHING]


def stage(spec: TopK, release: Release) -> _SelectDoFn:
    return _SelectDoFn(spec, release, plan(spec, Execution(1), None, True, True), None)


@pytest.mark.parametrize(
    ("first", "timing", "fires"),
    [
        (True, PaneInfoTiming.ON_TIME, True),
        (True, PaneInfoTiming.UNKNOWN, True),
        (True, PaneInfoTiming.EARLY, False),
        (False, PaneInfoTiming.LATE, False),
        (False, PaneInfoTiming.ON_TIME, False),
    ],
)
def test_a_second_pane_is_refused_at_run_time(first: bool, timing: int, fires: bool) -> None:
    """What a pipeline that was put together by hand, or a runner of its own mind, could hand over."""
    pane = PaneInfo(first, True, timing, 0 if first else 1, 0)
    for spec in (HIDDEN, SELECTION):
        found = stage(spec, RELEASE).process((0, drawn_from(RELEASE, [])), GlobalWindow(), pane)
        if fires:
            assert next(found) is not None
        else:
            with pytest.raises(RuntimeError, match="a window fired twice, which would be two releases"):
                next(found)


HOURS = Period(
    datetime(2026, 1, 5, tzinfo=UTC),
    datetime(2026, 1, 5, 10, tzinfo=UTC) + timedelta(days=5),
    timedelta(hours=1),
)
ROWS = [
    {"user": user, "item": item, "group": "ab"[item % 2], "time": start + timedelta(minutes=user)}
    for hour, start in enumerate(map(from_microseconds, HOURS.starts.tolist()))
    for item in range(hour % 5)
    for user in range(2 + (hour + item) % 7)
]


@pytest.mark.parametrize(("groups", "most"), [nightly(None, 4), (["a", "b"], 2)])
def test_only_a_single_window_may_be_too_large_for_a_worker(
    monkeypatch: pytest.MonkeyPatch, groups: list[str] | None, most: int
) -> None:
    """Of the windows of a group, or of their groups of rows, as few are drawn from at a time as it takes."""
    by_group = {} if groups is None else {"groups": groups, "group": "group"}
    domain, rows = RangeDomain(0, 1 << 30), pl.DataFrame(ROWS)
    asked: dict[str, Any] = {"period": HOURS, "time": "time", "release": RELEASE, **by_group}
    wanted = private_topk.rank(rows, 2, Joint(1.0), domain, **asked)
    assert Partitioning.of(domain, HOURS, len(groups or [])).windows_per_group > 2
    monkeypatch.setattr(select, "MAX_HELD", most)
    assert private_topk.rank(rows, 2, Joint(1.0), domain, **asked) == wanted
    monkeypatch.setattr(select, "MAX_HELD", most - 1)
    with pytest.raises(RunFailed) as failed:
        private_topk.rank(rows, 2, Joint(1.0), domain, **asked)
    assert f"more than {most - 1} different items are held in a window, or in a group" in str(failed.value.__cause__)


class _ReadOnce:
    """What a runner hands over, without the first element for whoever reads it again."""

    def __init__(self, elements: list[Counted]) -> None:
        self._elements = elements

    def __iter__(self) -> Iterator[Counted]:
        elements, self._elements = self._elements, self._elements[1:]
        return iter(elements)


def test_counts_lost_between_two_readings_fail_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "MAX_HELD", 2)
    spec = TopK(1, Joint(1.0), RangeDomain(0, 99))
    draw = _SelectDoFn(spec, RELEASE, plan(spec, Execution(1), HOURS, True, True), HOURS)
    columns = {"item": np.arange(3, dtype=np.uint32), "count": np.ones(3, np.int64)}
    counted = drawn_from(RELEASE, [make_table(window=np.arange(3, dtype=np.uint32), **columns)])
    assert len(list(draw.process((0, counted), GlobalWindow(), PANE))) == 3
    with pytest.raises(WorkerRefusal, match="lost or doubled"):
        list(draw.process((0, _ReadOnce(counted)), GlobalWindow(), PANE))
