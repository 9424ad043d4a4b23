"""Counts added up by item shard, and the largest of them."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms import combine
from private_topk.transforms.columnar import make_table
from private_topk.transforms.combine import Combiner, KeyedCounts, PartialCounts, largest
from private_topk.transforms.completeness import Fingerprint, Receipt
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.plan import ITEM_SHARD_BITS, Partitioning
from private_topk.transforms.release import ReleaseKey


@pytest.mark.parametrize("windows", [1, 2])
def test_totals_below_the_least_are_dropped_but_for_listed_items(windows: int) -> None:
    """And nobody awaits them: the receipt leaves them out."""
    fingerprint, layout = Fingerprint(ReleaseKey.for_tests()), Partitioning.of(UnknownDomain())
    where = {"window": np.zeros(4, np.uint32)} if windows > 1 else {}
    part = PartialCounts(make_table(**where, item=pa.array(["a", "b", "c", "d"]), count=np.array([4, 5, 1, 1])))
    for catalogue, kept in ((None, ["b"]), (PublicDomain.of(["c", "elsewhere", "b"]), ["b", "c"])):
        combiner = Combiner(layout, None, 5, fingerprint, catalogue)
        receipt = Receipt(counts=fingerprint.of(part.table))
        totals, left = combiner.totals(0, [part, receipt])
        assert totals["item"].to_pylist() == kept
        assert left.counts == fingerprint.of(totals)


@pytest.mark.parametrize("keep", [None, 1, 4, 30])
def test_the_largest_of_every_window(keep: int | None) -> None:
    """Windows of no row to thirty."""
    draw = random.Random(3)
    for _ in range(50):
        rows = [
            (window, f"é{n}" if n % 3 else f"{n}", draw.randrange(1, 4))
            for window in draw.sample(range(9), 5)
            for n in draw.sample(range(60), draw.randrange(31))
        ]
        draw.shuffle(rows)
        order = sorted(rows, key=lambda row: (row[0], -row[2], row[1].encode()))
        wanted = [row for window in range(9) for row in [row for row in order if row[0] == window][:keep]]
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        kinds = {"window": pa.uint32(), "item": pa.large_string(), "count": pa.int64()}
        table = pa.table({name: pa.array(its, kinds[name]) for name, its in zip(kinds, columns, strict=True)})
        assert [tuple(row.values()) for row in largest(table, keep).to_pylist()] == wanted


class TestPreCombining:
    """What a bundle adds up before it is grouped: the same sums."""

    def test_counts_add_up_by_item_shard_for_any_bundles(self, monkeypatch: pytest.MonkeyPatch) -> None:
        layout, state = Partitioning(3 << ITEM_SHARD_BITS), np.random.default_rng(7)
        sent: list[KeyedCounts] = [(key, PartialCounts(some_totals(state, key))) for _ in range(16) for key in range(3)]
        sent += [(0, Receipt.of_user_shard(shard, 0, 5)) for shard in range(16)]
        for most in (1, 40, 10**6):
            monkeypatch.setattr(combine, "_ROWS_AT_HAND", most)
            ahead = pre_combined(layout, [sent[:5], sent[5:6], [], sent[6:]])
            assert sums(ahead, layout) == sums(sent, layout)
            assert len(ahead) <= len(sent) and (most < 10**6 or len(ahead) <= 3 * 4)

    def test_no_table_becomes_larger_than_a_runner_can_group(self) -> None:
        """Counts of a year of days: six windows a key, of 60,000 items each. Those that fit are added up as ever."""
        layout = Partitioning(60_000, windows=365)
        column = np.repeat(np.arange(6, dtype=np.uint32), layout.size)
        items = np.tile(np.arange(layout.size, dtype=np.uint32), 6)
        wide = make_table(window=column, item=items, count=np.ones(len(items), np.int64))
        few = make_table(window=column[:9] + 6, item=items[:9], count=np.ones(9, np.int64))
        sent: list[KeyedCounts] = [(0, piece) for _ in range(2) for piece in PartialCounts.cut(wide)]
        sent += [(1, PartialCounts(few))] * 2
        ahead = pre_combined(layout, [sent])
        tables = [its.table for _, its in ahead if isinstance(its, PartialCounts)]
        assert max(map(len, tables)) <= 1 << 16 and sum(key == 1 for key, _ in ahead) == 1
        assert sums(ahead, layout) == sums(sent, layout)


def pre_combined(layout: Partitioning, bundles: list[list[KeyedCounts]]) -> list[KeyedCounts]:
    fn, found = combine._PreCombineDoFn(Combiner(layout, None)), list[KeyedCounts]()
    for bundle in bundles:
        fn.start_bundle()
        for element in bundle:
            found += fn.process(element)
        found += [late.value for late in fn.finish_bundle()]
    return found


def some_totals(state: np.random.Generator, key: int) -> pa.RecordBatch:
    codes = np.sort(state.choice(1 << ITEM_SHARD_BITS, 20, replace=False)) + (key << ITEM_SHARD_BITS)
    return make_table(item=codes.astype(np.uint32), count=state.integers(1, 9, 20))


def sums(sent: list[KeyedCounts], layout: Partitioning) -> dict[int, tuple[object, Receipt]]:
    found = {}
    for key in sorted({key for key, _ in sent}):
        table, receipt = Combiner(layout, None).sums(key, [its for at, its in sent if at == key])
        found[key] = table.to_pydict(), receipt
    return found


def test_totals_are_handed_on_in_small_pieces_by_window_group() -> None:
    """An item shard with 200,000 totals hands on four tables; one without any hands on its receipt."""
    rows = np.arange(200_000)
    fn = combine._CombineDoFn(Combiner(Partitioning(1 << 24, 128), None))
    shards, receipt = Partitioning(1 << 24, 128).item_shards, Receipt.of_user_shard(0, 1, 0)
    window = np.full(200_000, 1, np.uint32)
    whole = PartialCounts(make_table(window=window, item=rows.astype(np.uint32), count=rows + 1))
    pieces = list(fn.process((shards, [whole, receipt])))
    assert [group for group, _ in pieces] == [1] * 5 and pieces[-1][1] == receipt
    assert [len(its.table) for _, its in pieces[:-1]] == [1 << 16] * 3 + [200_000 - 3 * (1 << 16)]
    assert np.concatenate([its.table["item"].to_numpy() for _, its in pieces[:-1]]).tolist() == rows.tolist()
    assert list(fn.process((shards, [receipt]))) == [(1, receipt)]
