"""Windows as numbers in a table, against counting every window by itself: plain functions, no Beam."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms import user_shards as user_shard_module
from private_topk.transforms.columnar import make_table
from private_topk.transforms.combine import add_up
from private_topk.transforms.completeness import check_whole
from private_topk.transforms.domain import UnknownDomain
from private_topk.transforms.parts import MANIFEST, PlacedPart, by_group, with_manifest
from private_topk.transforms.plan import ITEM_SHARD_BITS, Layout
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.select import by_window as tables_by_window
from private_topk.transforms.user_shards import UserShard
from private_topk.transforms.windows import Period

KEY = ReleaseKey.held(b"a key of the tests, no secret")
START = datetime(2026, 1, 5, tzinfo=timezone.utc)
SHARDS = 3
SIZES = {"public": 50, "many codes": (2 << 20) + 7, "unknown": 0}


def some_items(size: int, state: np.random.RandomState, rows: int) -> np.ndarray | pa.Array:
    if size > 1000:  # of both sides of an edge between item shards
        return (state.randint(0, 3, rows) * (1 << 20) + state.randint(0, 7, rows)).astype(np.uint32)
    codes = np.minimum(state.geometric(0.1, rows), 50) - 1
    return codes.astype(np.uint8) if size else pa.array([f"label {code}" for code in codes], pa.large_string())


def some_pairs(layout: Layout, seed: int, rows: int = 200) -> list[pa.RecordBatch]:
    """A table for every user shard, with many repeated pairs."""
    found = []
    for shard in range(SHARDS):
        state = np.random.RandomState(seed + shard)
        users = (state.randint(0, 15, rows) * SHARDS + shard).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        first = state.randint(0, layout.windows, rows)
        after = np.minimum(first + state.randint(1, 6, rows), layout.windows)
        spans = {name: {"first": first, "after": after}[name].astype(kind)
                 for name, kind in layout.window_columns.items()}  # fmt: skip
        found.append(make_table(user=users, item=some_items(layout.size, state, rows), **spans))
    return found


def by_window(layout: Layout, tables: list[pa.RecordBatch], limit: int | None) -> Tally:
    """Every window counted by itself, with the counter of a single window."""
    alone, total = UserShard(Layout(layout.size), KEY, limit), Tally()
    for table in tables:
        rows = table.to_pylist()
        for window in range(layout.windows):
            inside = [r["first"] <= window < r["after"] if layout.overlap else r["first"] == window for r in rows]
            part = table.filter(pa.array(inside)).select(["user", "item"])
            for _, counts in alone.counts([part]):
                total.update({(window, row["item"]): row["count"] for row in counts.to_pylist()})
    return total


def handed_on(layout: Layout, tables: list[pa.RecordBatch], limit: int | None) -> list[PlacedPart]:
    counter = UserShard(layout, KEY, limit)
    return [part for shard, table in enumerate(tables) for part in with_manifest(shard, counter.counts([table]))]


def added_up(layout: Layout, parts: Iterable[PlacedPart], keep: int | None = None) -> list[PlacedPart]:
    parts = list(parts)
    places = {place for place, _ in parts}
    return [add_up(place, [part for at, part in parts if at == place], layout, keep) for place in places]


def brought_together(layout: Layout, totals: Iterable[PlacedPart]) -> dict[int, list[PlacedPart]]:
    groups: dict[int, list[PlacedPart]] = {}
    for total in totals:
        for group, part in by_group(total, layout):
            groups.setdefault(group, []).append(part)
    return groups


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
    monkeypatch.setattr(user_shard_module, "_MOST_ROWS", 200 if "few" in overlap else 1 << 22)
    layout = Layout(SIZES[size], windows, overlap != "apart")
    tables = some_pairs(layout, windows)
    expected, found = by_window(layout, tables, limit), Tally()
    groups = brought_together(layout, added_up(layout, handed_on(layout, tables, limit)))
    assert len(groups) == layout.groups <= 64
    for group, parts in groups.items():
        check_whole(parts, SHARDS)
        totals = [part.table for place, part in parts if place != MANIFEST]
        for window, slices in tables_by_window(totals, layout.group(group)):
            for row in (row for table in slices for row in table.to_pylist()):
                assert (window, row["item"]) not in found
                found[window, row["item"]] = row["count"]
    assert found == expected and len(expected) >= 20


def test_the_heads_of_every_window_are_its_largest() -> None:
    layout = Layout(0, 5)
    tables = some_pairs(layout, 1, 3000)
    whole = added_up(layout, handed_on(layout, tables, None))
    heads = dict(added_up(layout, handed_on(layout, tables, None), keep=2))
    for place, part in whole:
        rows = part.table.to_pylist() if place != MANIFEST else []
        for window in {row["window"] for row in rows}:
            order = sorted((-r["count"], r["item"]) for r in rows if r["window"] == window)[:2]
            kept = [(-r["count"], r["item"]) for r in heads[place].table.to_pylist() if r["window"] == window]
            assert kept == order


@pytest.mark.parametrize(
    ("size", "together"), [(0, 1024), (50, 1024), (1 << 17, 128), ((3 << 20) + 1, 5), (1 << 24, 1)]
)
def test_every_window_is_in_one_group_and_every_place_in_one_too(size: int, together: int) -> None:
    """Of at most 1,024 windows, and 2**24 counts where there is more than one window."""
    for windows in [*range(1, 200), 9_999, 65_537, 100_000]:
        layout = Layout(size, windows)
        groups = [layout.group(number) for number in range(layout.groups)]
        assert [window for group in groups for window in group] == list(range(windows))
        assert len(groups) <= max(64, -(-windows // together)) and max(map(len, groups)) <= together
        numbers = np.array([group[-1] for group in groups])
        places = layout.places(numbers, np.full(len(numbers), layout.item_shards - 1))
        assert [layout.group_of(place) for place in places.tolist()] == list(range(layout.groups))


def test_a_part_lost_from_one_group_spoils_that_group_alone() -> None:
    layout = Layout(50, 128)
    parts = handed_on(layout, some_pairs(layout, 3), None)
    lost = next(place for place, _ in parts if place != MANIFEST)
    groups = brought_together(layout, added_up(layout, [p for p in parts if p[0] != lost or p[1].sources[0] != 0]))
    whole = []
    for group, found in groups.items():
        try:
            check_whole(found, SHARDS)
            whole.append(group)
        except RuntimeError:
            assert group == layout.group_of(lost)
    assert len(whole) == layout.groups - 1


@pytest.mark.parametrize("windows", [1, 24, 10_000])
@pytest.mark.parametrize("size", [1, 65_537, 10**7, 1 << 32])
def test_item_shards_are_small_where_there_is_room_for_more_of_them(size: int, windows: int) -> None:
    layout = Layout(size, windows)
    places = layout.item_shards * layout.groups
    assert layout.item_shards <= 64 and (places <= 64 or layout.item_bits >= 20)
    assert layout.item_bits == ITEM_SHARD_BITS or 2 * places > 64 or 2 * layout.item_shards > 64
    assert [layout.codes(0).start, layout.codes(layout.item_shards - 1).stop] == [0, size]


@pytest.mark.parametrize("windows", [1, 64, 10_000])
def test_labels_meet_in_more_places_where_there_is_more_input(windows: int) -> None:
    """As many as user shards up to 256, then one for four of them, but 16 at least for a group of windows."""
    period = Period(START, START + timedelta(days=windows), timedelta(days=1))
    for shards in [1 << n for n in range(17)]:
        layout = Layout.of(UnknownDomain(), period, shards=shards)
        assert layout.residues == layout.item_shards and layout.residues >= 16
        alike = shards if shards <= 256 else max(256, shards // 4)
        assert layout.residues == max(16, alike // layout.groups)
    assert Layout.of(UnknownDomain(), period).residues == 16, "a stream, of which nobody knows how much there is"
