"""The plan of an execution, as a table; and counts by partitioning, against counting every window by itself."""

from __future__ import annotations

from collections import Counter as Tally
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms import user_shards as user_shards_module
from private_topk.transforms.columnar import make_table
from private_topk.transforms.domain import PublicDomain, RangeDomain, UnknownDomain
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms import Joint, LimitDomain, WeightedOrder
from private_topk.transforms.plan import ITEM_SHARD_BITS, Execution, Partitioning, plan
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.select import by_window as tables_by_window
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period
from tests.transforms.pipelines import added_up
from tests.transforms.shards import shard_of

KEY = ReleaseKey.held(b"a key of the tests, no secret")
START = datetime(2026, 1, 5, tzinfo=UTC)
SHARDS = 3
SIZES = {"public": 50, "many codes": (2 << 20) + 7, "unknown": 0}
WEEK = Period(START, START + timedelta(days=7), timedelta(days=1))
SPECS: dict[str, Any] = {
    "public": TopK(1, Joint(1.0), ["a", "b"]),
    "range": TopK(1, Joint(1.0), RangeDomain(0, 1 << 30)),
    "unknown": TopK(1, LimitDomain(1.0, 0.1), UnknownDomain()),
    "weights": TopK(1, WeightedOrder(1.0, 0.01, 9, whole_items=2), ["a", "b"]),
    "groups": TopK(1, Joint(1.0), ["a", "b"], groups=Groups.of(["x", "y", "z"])),
}
BATCH, ONE, STREAM, ACTIVE = (WEEK, True, True), (None, True, True), (WEEK, False, False), (None, False, True)
PLAIN, HERE, TIMERS = (Execution(8, **more) for more in ({}, {"by_reference": True}, {"waits_for_timers": True}))


@pytest.mark.parametrize(
    ("spec", "execution", "input", "gathering", "windows", "together", "pre_combine", "numbered"),
    [
        ("public", PLAIN, BATCH, "grouped", "one", 1 << 17, True, 7),
        ("public", HERE, BATCH, "by reference", "one", 0, False, 7),
        ("public", TIMERS, BATCH, "grouped", "one", 1 << 17, True, 7),
        ("public", PLAIN, ONE, "grouped", "one", 1 << 17, True, 1),
        ("public", PLAIN, STREAM, "grouped", "declared", 0, False, 1),
        ("public", HERE, STREAM, "grouped", "declared", 0, False, 1),
        ("public", TIMERS, STREAM, "stateful", "declared", 0, False, 1),
        ("public", PLAIN, ACTIVE, "grouped", "active", 0, False, 1),
        ("public", HERE, ACTIVE, "grouped", "active", 0, False, 1),
        ("range", PLAIN, BATCH, "grouped", "one", 1 << 17, False, 7),
        ("unknown", PLAIN, BATCH, "grouped", "one", 1 << 17, False, 7),
        ("weights", PLAIN, BATCH, "grouped", "one", 1 << 17, False, 7),
        ("groups", PLAIN, BATCH, "grouped", "one", 1 << 17, True, 21),
        ("groups", TIMERS, STREAM, "stateful", "declared", 0, False, 3),
    ],
)
def test_every_question_of_mode_is_answered_by_the_plan(
    spec: str,
    execution: Execution,
    input: tuple[Any, ...],
    gathering: str,
    windows: str,
    together: int,
    pre_combine: bool,
    numbered: int,
) -> None:
    planned = plan(SPECS[spec], execution, *input)
    assert (planned.gathering, planned.windows, planned.rows_together, planned.pre_combine) == (
        gathering,
        windows,
        together,
        pre_combine,
    )
    assert (planned.partitioning.windows, planned.user_shards) == (numbered, 8)


def test_cores_are_of_one_window_and_rows_held_together_are_bounded() -> None:
    assert [plan(SPECS["public"], Execution(8, cores=4), *its).cores for its in (BATCH, STREAM, ACTIVE)] == [4, 1, 1]
    assert plan(SPECS["public"], Execution(1 << 16), *BATCH).rows_together == 1 << 20
    assert plan(SPECS["public"], Execution(8, (3, 5)), *BATCH).readers == (3, 5)


def some_items(size: int, state: np.random.RandomState, rows: int) -> np.ndarray | pa.Array:
    if size > 1000:  # of both sides of an edge between item shards
        return (state.randint(0, 3, rows) * (1 << 20) + state.randint(0, 7, rows)).astype(np.uint32)
    codes = np.minimum(state.geometric(0.1, rows), 50) - 1
    return codes.astype(np.uint8) if size else pa.array([f"label {code}" for code in codes], pa.large_string())


def some_pairs(layout: Partitioning, seed: int, rows: int = 200) -> list[pa.RecordBatch]:
    """A table for every user shard, with many repeated pairs."""
    found = []
    for shard in range(SHARDS):
        state = np.random.RandomState(seed + shard)
        users = (state.randint(0, 15, rows) * SHARDS + shard).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        first = state.randint(0, layout.windows, rows)
        after = np.minimum(first + state.randint(1, 6, rows), layout.windows)
        spans = {
            name: {"first": first, "after": after}[name].astype(kind) for name, kind in layout.window_columns.items()
        }
        found.append(make_table(user=users, item=some_items(layout.size, state, rows), **spans))
    return found


def by_window(layout: Partitioning, tables: list[pa.RecordBatch], limit: int | None) -> Tally:
    """Every window counted by itself, with the counter of a single window."""
    alone, total = shard_of(Partitioning(layout.size), KEY, limit), Tally()
    for table in tables:
        rows = table.to_pylist()
        for window in range(layout.windows):
            inside = [r["first"] <= window < r["after"] if layout.overlap else r["first"] == window for r in rows]
            part = table.filter(pa.array(inside)).select(["user", "item"])
            for _, counts in alone.counts([part]):
                total.update({(window, row["item"]): row["count"] for row in counts.to_pylist()})
    return total


@pytest.mark.parametrize(
    ("size", "windows", "overlap", "limit"),
    [
        ("public", 130, "apart", None),
        ("public", 65, "overlapping, a few groups at a time", 2),
        ("many codes", 3, "overlapping", None),
        ("many codes", 2, "apart", 2),
        ("unknown", 130, "overlapping", 2),
        ("unknown", 65, "overlapping, a few groups at a time", None),
    ],
)
def test_counts_are_those_of_every_window_by_itself(
    size: str, windows: int, overlap: str, limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_shards_module, "_MAX_ROWS", 200 if "few" in overlap else 1 << 22)
    layout = Partitioning(SIZES[size], windows, overlap != "apart")
    tables = some_pairs(layout, windows)
    expected, found = by_window(layout, tables, limit), Tally()
    counter = shard_of(layout, KEY, limit)
    totals = added_up((part for table in tables for part in counter.counts([table])), layout)
    for window, slices in tables_by_window(totals, range(layout.windows)):
        for row in (row for table in slices for row in table.to_pylist()):
            assert (window, row["item"]) not in found
            found[window, row["item"]] = row["count"]
    assert layout.window_groups <= 64
    assert found == expected and len(expected) >= 20


@pytest.mark.parametrize(
    ("size", "together"), [(0, 1024), (50, 1024), (1 << 17, 128), ((3 << 20) + 1, 5), (1 << 24, 1)]
)
def test_every_window_and_every_key_is_in_one_window_group(size: int, together: int) -> None:
    """Of at most 1,024 windows, and 2**24 counts where there is more than one window."""
    for windows in [*range(1, 200), 9_999, 65_537, 100_000]:
        layout = Partitioning(size, windows)
        groups = [layout.group(number) for number in range(layout.window_groups)]
        assert [window for group in groups for window in group] == list(range(windows))
        assert len(groups) <= max(64, -(-windows // together)) and max(map(len, groups)) <= together
        numbers = np.array([group[-1] for group in groups])
        keys = layout.keys(numbers, np.full(len(numbers), layout.item_shards - 1))
        assert [layout.group_of(key) for key in keys.tolist()] == list(range(layout.window_groups))


@pytest.mark.parametrize("windows", [1, 24, 10_000])
@pytest.mark.parametrize("size", [1, 65_537, 10**7, 1 << 32])
def test_item_shards_are_small_where_there_is_room_for_more_of_them(size: int, windows: int) -> None:
    layout = Partitioning(size, windows)
    keys = layout.item_shards * layout.window_groups
    assert layout.item_shards <= 64 and (keys <= 64 or layout.item_bits >= 20)
    assert layout.item_bits == ITEM_SHARD_BITS or 2 * keys > 64 or 2 * layout.item_shards > 64
    assert [layout.codes(0).start, layout.codes(layout.item_shards - 1).stop] == [0, size]


@pytest.mark.parametrize("windows", [1, 64, 10_000])
def test_labels_meet_in_more_item_shards_where_there_is_more_input(windows: int) -> None:
    """As many as user shards up to 256, then one for four of them, but 16 at least for a group of windows."""
    period = Period(START, START + timedelta(days=windows), timedelta(days=1))
    for shards in [1 << n for n in range(17)]:
        layout = Partitioning.of(UnknownDomain(), period, user_shards=shards)
        assert layout.residues == layout.item_shards and layout.residues >= 16
        alike = shards if shards <= 256 else max(256, shards // 4)
        assert layout.residues == max(16, alike // layout.window_groups)
    assert Partitioning.of(UnknownDomain(), period).residues == 16, "a stream, of which nobody knows how much there is"


def test_windows_are_drawn_together_as_long_as_they_are_small() -> None:
    start, day = datetime(2026, 1, 5, tzinfo=UTC), timedelta(days=1)

    def together(domain: PublicDomain | RangeDomain | UnknownDomain, windows: int) -> int:
        return Partitioning.of(domain, Period(start, start + windows * day, day)).windows_per_group

    few = PublicDomain.of(["a", "b"])
    assert [together(few, windows) for windows in (1, 64, 65, 10_000)] == [1, 1, 2, 157]
    assert [together(UnknownDomain(), windows) for windows in (65, 10_000)] == [2, 157]
    assert [together(RangeDomain(0, 1 << 32), windows) for windows in (65, 640, 10_000)] == [2, 10, 64]
    year, whole = Period(start, start + 365 * day, day / 24), RangeDomain(0, 1 << 26)
    grown = [Partitioning.of(whole, year, user_shards=1 << n).windows_per_group for n in (0, 8, 10, 12, 14)]
    assert grown == [64, 64, 64, 34, 8], "of a large input fewer: an hour may hold a million"
    assert [Partitioning(10**7, windows).windows_per_group for windows in (1, 1000, 10**6)] == [1, 1, 1]
    for size, windows in ((200_000, 10_000), (1, 10**6), (1 << 24, 9_999), (300, 70_000)):
        partitioning = Partitioning(size, windows)
        assert partitioning.windows_per_group * size <= 1 << 24 and partitioning.windows_per_group <= 1024
