"""The final stage: what is drawn from is what one vector of all counts would be, and every rank names its item."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta, timezone

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from private_topk.transforms import select
from private_topk.transforms.columnar import make_table
from private_topk.transforms.combine import add_up
from private_topk.transforms.domain import PublicDomain, RangeDomain, UnknownDomain
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import MECHANISMS, CandidatesThenRank, Joint, RandomBits
from private_topk.transforms.mechanisms.exact.histogram import Named
from private_topk.transforms.parts import Part, PlacedPart, heartbeat, with_manifest
from private_topk.transforms.plan import ITEM_SHARD_BITS, Layout
from private_topk.transforms.release import Ranking, Release, ReleaseKey, release_seed
from private_topk.transforms.select import RankingKey, SelectTopK, WindowCounts, _SelectDoFn, by_window, rank
from private_topk.transforms.spec import TopK
from private_topk.transforms.user_shards import UserShard
from private_topk.transforms.windows import Period, WindowBounds

SELECTION = TopK(2, Joint(epsilon=1.0), PublicDomain.of(["a", "b", "c"]), 5)
LAYOUT = Layout.of(SELECTION.domain)
HIDDEN = TopK(2, MECHANISMS["limit-domain"](epsilon=1.0, delta=0.1), UnknownDomain())
PANE = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
RELEASE = Release(ReleaseKey.held(b"selection".ljust(32, b".")), "two rounds")

SIZE = (5 << ITEM_SHARD_BITS) // 2
LAYOUTS = {"one shard": Layout(300, 5), "three shards": Layout(SIZE, 3), "one window": Layout(SIZE)}


def some_counts(layout: Layout, window: int) -> np.ndarray:
    """A vector of all counts, most of them 0; in the last window all of them, and in that before none of shard 1."""
    rng = np.random.default_rng(window)
    counts = np.zeros(layout.size, np.int64)
    if window < layout.windows - 1 or layout.windows == 1:
        codes = np.append(rng.choice(layout.size, 60, replace=False), [0, layout.size - 1])
        counts[codes] = rng.integers(1, 6, len(codes))
        if layout.windows == 3 and window == 1:
            counts[1 << ITEM_SHARD_BITS : 2 << ITEM_SHARD_BITS] = 0
    return counts


def totals_of(layout: Layout, shard: int) -> pa.RecordBatch:
    codes = layout.codes(shard)
    parts = [some_counts(layout, window)[codes.start : codes.stop] for window in range(layout.windows)]
    window = np.concatenate([np.full(np.count_nonzero(part), number) for number, part in enumerate(parts)])
    item = np.concatenate([np.flatnonzero(part) + codes.start for part in parts])
    count = np.concatenate([part[part > 0] for part in parts])
    column = {"window": window.astype(np.uint32)} if layout.windows > 1 else {}
    return make_table(**column, item=item.astype(layout.item_type), count=count)


@pytest.mark.parametrize("name", LAYOUTS)
def test_tables_of_the_shards_say_what_one_vector_does(name: str) -> None:
    layout = LAYOUTS[name]
    spec = TopK(1, Joint(1.0), RangeDomain(0, layout.size))
    tables = [totals_of(layout, shard) for shard in range(layout.item_shards)]
    pieces = [table.slice(start, 7) for table in tables for start in range(0, len(table), 7)]
    digests = set()
    for turned in (tables, tables[::-1], pieces[::-1]):
        windows = by_window(turned, range(layout.windows)) if layout.windows > 1 else [(0, turned)]
        for window, some in windows:
            found, named = WindowCounts.of(spec, some), Named.of(some_counts(layout, window))
            digests.add(found.digest)
            assert found.histogram.values.tolist() == named.histogram.values.tolist()
            assert found.histogram.sizes.tolist() == named.histogram.sizes.tolist()
            ranks = np.unique(np.append(np.arange(min(100, layout.size)), [layout.size // 2, layout.size - 1]))
            assert found.items(ranks[::-1]).tolist() == named.items(ranks[::-1]).tolist()
    assert len(digests) == layout.windows


def test_other_counts_items_or_users_have_another_digest() -> None:
    """Of a mechanism of two rounds the second is drawn from the numbers of users: they are in the digest too."""
    spec = TopK(1, CandidatesThenRank(1.0, 0.01, 9, whole_items=2), RangeDomain(0, 9))
    columns = {"item": np.array([3, 4], np.uint32), "count": [70, 70], "users": [1, 2]}
    changes = ({}, {"item": np.array([3, 5], np.uint32)}, {"count": [70, 71]}, {"users": [1, 1]})
    found = {WindowCounts.of(spec, [make_table(**{**columns, **change})]).digest for change in changes}
    assert len(found) == 4 and WindowCounts.of(spec, []).digest not in found


def test_an_unknown_domain_is_its_largest_counts_whoever_hands_them_on() -> None:
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
def test_nothing_at_all_is_all_zeros(size: int) -> None:
    found = WindowCounts.of(TopK(1, Joint(1.0), RangeDomain(0, size)), [])
    assert found.histogram.values.tolist() == [0] and found.histogram.sizes.tolist() == [size]
    assert found.items(np.array([size - 1])).tolist() == [size - 1]


def some_pairs() -> np.ndarray:
    """Users and items, (n, 2): of the first and the last of three item shards."""
    rng = np.random.default_rng(5)
    items = np.append(rng.integers(0, 30, 400), rng.integers(SIZE - 30, SIZE, 400))
    return np.unique(np.stack([rng.integers(0, 90, 800) ** 2 // 90, items], axis=1), axis=0)


def totals_of_pairs(pairs: np.ndarray, mechanism: CandidatesThenRank) -> list[pa.RecordBatch]:
    """By the pipeline's functions, from two user shards."""
    layout = Layout(SIZE)
    shard = UserShard(layout, RELEASE.key, mechanism.max_items_per_user, weighting=mechanism.weighting)
    parts: dict[int, list[Part]] = defaultdict(list)
    for half in (0, 1):
        own = pairs[pairs[:, 0] % 2 == half]
        table = make_table(user=own[:, 0].astype(np.uint64), item=own[:, 1].astype(layout.code_type))
        for place, counted in shard.counts([table]):
            parts[place].append(Part(np.array([half]), counted))
    return [add_up(place, its, layout)[1].table for place, its in parts.items()]


@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 7), (50.0, 60), (1000.0, 3)])
def test_a_ranking_of_two_rounds_is_the_draw_of_both_vectors(epsilon: float, k: int) -> None:
    """Of sums and users counted here; with k = 60 also items that nobody holds."""
    mechanism = CandidatesThenRank(epsilon, 0.01, 200, whole_items=2)
    spec = TopK(k, mechanism, RangeDomain(0, SIZE))
    pairs, totals = some_pairs(), totals_of_pairs(some_pairs(), mechanism)
    sums, users = np.zeros((2, SIZE), np.int64)
    for user in np.unique(pairs[:, 0]):
        its = pairs[pairs[:, 0] == user, 1]
        sums[its] += mechanism.weighting.weight(len(its))
        users[its] += 1
    of = RankingKey(WindowBounds(), None)
    for some in (totals, totals[::-1]):
        counted = WindowCounts.of(spec, some)
        seed = release_seed(RELEASE, of.label(), spec.parameters(), counted.digest)
        wanted = mechanism(sums, k, RandomBits.keyed(seed), users)
        found = rank(spec, RELEASE, of, counted)
        assert found.items == tuple(map(str, wanted.tolist())) and found.noisy_weights is None is found.noisy_counts


def parts_of(labels: dict[str, int]) -> list[PlacedPart]:
    """What the only user shard sends: a part for every item."""
    tables = [make_table(item=pa.array([label], pa.large_string()), count=[count]) for label, count in labels.items()]
    return list(with_manifest(0, enumerate(tables)))


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
    for spec, layout in ((HIDDEN, Layout(0)), (SELECTION, LAYOUT)):
        stage = _SelectDoFn(spec, Release.fresh(), 1, layout, None)
        found = stage.process((0, [heartbeat(), *with_manifest(0, [])]), GlobalWindow(), pane)
        if fires:
            assert next(found) is not None
        else:
            with pytest.raises(RuntimeError, match="a window fired twice, which would be two releases"):
                next(found)


def test_shards_may_come_in_any_order() -> None:
    release = Release.fresh()
    parts = [*parts_of({"a": 30, "b": 40, "c": 50}), heartbeat(), heartbeat()]
    draw = _SelectDoFn(HIDDEN, release, 1, Layout(0), None)
    answers = [next(draw.process((0, parts[::step]), GlobalWindow(), PANE)) for step in (1, -1)]
    assert answers[0] == answers[1] and answers[0].window == WindowBounds()


def test_more_items_than_a_worker_holds_are_refused_without_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "MOST_HELD", 3)
    totals = make_table(item=np.arange(4, dtype=np.uint32), count=np.ones(4, np.int64))
    draw = _SelectDoFn(TopK(1, Joint(1.0), RangeDomain(0, 99)), RELEASE, 1, Layout(99), None)
    assert next(draw.process((0, list(with_manifest(0, [(0, totals.slice(0, 3))]))), GlobalWindow(), PANE))
    with pytest.raises(Refusal, match="more than 3 different items are held in a window, .*: rank shorter windows"):
        next(draw.process((0, list(with_manifest(0, [(0, totals)]))), GlobalWindow(), PANE))


def test_windows_are_drawn_together_as_long_as_they_are_small() -> None:
    start, day = datetime(2026, 1, 5, tzinfo=timezone.utc), timedelta(days=1)

    def together(domain: PublicDomain | RangeDomain | UnknownDomain, windows: int) -> int:
        return Layout.of(domain, Period(start, start + windows * day, day)).together

    few = PublicDomain.of(["a", "b"])
    assert [together(few, windows) for windows in (1, 64, 65, 10_000)] == [1, 1, 2, 157]
    assert [together(UnknownDomain(), windows) for windows in (65, 10_000)] == [2, 157]
    assert [together(RangeDomain(0, 1 << 32), windows) for windows in (65, 640, 10_000)] == [2, 10, 64]
    assert [Layout(10**7, windows).together for windows in (1, 1000, 10**6)] == [1, 1, 1]
    for size, windows in ((200_000, 10_000), (1, 10**6), (1 << 24, 9_999), (300, 70_000)):
        layout = Layout(size, windows)
        assert layout.together * size <= 1 << 24 and layout.together <= 1024


def test_parameters_are_all_that_the_answer_depends_on() -> None:
    assert SELECTION.parameters() == {
        "mechanism": "joint", "epsilon": 1.0, "skew": "1/2", "noise": "gumbel", "neighbours": "add-remove",
        "k": 2, "max_items_per_user": 5, "publish_counts": None, "domain": SELECTION.domain.describe(),
    }  # fmt: skip


@pytest.mark.parametrize("spec", [SELECTION, HIDDEN])
def test_the_stage_gives_rankings(spec: TopK) -> None:
    pipeline = beam.Pipeline()
    totals = pipeline | beam.Create([heartbeat()]).with_output_types(PlacedPart)
    last = SelectTopK(spec, Release.fresh(), 1, Layout.of(spec.domain))
    assert ((totals, totals) | last).element_type == Ranking
