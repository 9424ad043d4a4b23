"""The table of values says of the counts what a draw needs, and every number in it finds its item again."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms.columnar import make_table
from private_topk.transforms.layout import ITEM_SHARD_BITS, Layout
from private_topk.transforms.mechanisms.exact.histogram import Named
from private_topk.transforms.tallies import find_items, tabulate, tallies

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
    totals = {shard: totals_of(layout, shard) for shard in range(layout.item_shards)}
    tables = [(shard, tabulate(table)) for shard, table in totals.items() if len(table)]
    found = list(tallies(tables, layout, range(layout.windows)))
    assert [t.digest for t in found] == [t.digest for t in tallies(tables[::-1], layout, range(layout.windows))]
    assert len({tally.digest for tally in found}) == layout.windows
    for window, tally in enumerate(found):
        named = Named.of(some_counts(layout, window))
        histogram = tally.histogram()
        assert histogram.values.tolist() == named.histogram.values.tolist()
        assert histogram.sizes.tolist() == named.histogram.sizes.tolist()
        ranks = np.unique(np.append(np.arange(min(100, layout.size)), [layout.size // 2, layout.size - 1]))
        values, shards, numbers = tally.where(ranks)
        assert values.tolist() == histogram.picks(ranks).values.tolist()
        items = np.empty(len(ranks), np.int64)
        for shard in np.unique(shards).tolist():
            some = shards == shard
            if not tally.seen[shard]:
                assert not values[some].any()
                items[some] = layout.first_codes[shard] + numbers[some]
                continue
            digest = next(t for s, t in tables if s == shard)
            digest = digest.filter(pa.compute.equal(digest["window"], window))["digest"][0]
            asked = make_table(window=np.full(some.sum(), window), value=values[some], number=numbers[some],
                               digest=pa.array([digest.as_py()] * int(some.sum()), pa.binary()))  # fmt: skip
            codes = find_items(totals[shard], asked, partial(layout.listed, item_shard=shard))
            assert codes is not None
            items[some] = codes
        assert items.tolist() == named.items(ranks).tolist()


def test_other_counts_have_another_digest_and_no_names() -> None:
    totals = make_table(item=np.array([1, 3, 4]), count=np.array([2, 2, 1]))
    table = tabulate(totals)
    assert table.select(["value", "size"]).to_pylist() == [{"value": 2, "size": 2}, {"value": 1, "size": 1}]
    asked = make_table(window=[0, 0], value=[2, 0], number=[1, 3], digest=pa.array([table["digest"][0].as_py()] * 2))
    codes = find_items(totals, asked, lambda _: range(10))
    assert codes is not None and codes.tolist() == [3, 6]
    for other in ({"item": [1, 3, 5]}, {"count": [2, 1, 2]}):
        columns = {"item": np.array([1, 3, 4]), "count": np.array([2, 2, 1])}
        columns |= {name: np.array(values) for name, values in other.items()}
        assert find_items(make_table(**columns), asked, lambda _: range(10)) is None


def test_nothing_at_all_is_all_zeros() -> None:
    layout = Layout(10, 2)
    assert len(tabulate(make_table(window=np.empty(0, np.uint32), item=np.empty(0, np.uint32),
                                   count=np.empty(0, np.int64)))) == 0  # fmt: skip
    for tally in tallies([], layout, range(2)):
        histogram = tally.histogram()
        assert histogram.values.tolist() == [0] and histogram.sizes.tolist() == [10]
