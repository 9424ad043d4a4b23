from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms import counts
from private_topk.transforms.columnar import make_table
from private_topk.transforms.counts import add_up_codes, add_up_labels, largest
from private_topk.transforms.layout import ITEM_SHARD_BITS, Layout


def test_a_range_of_codes_adds_up_in_any_order() -> None:
    draw, shard, total, streams = random.Random(1), 3, Counter(), []
    first = shard << ITEM_SHARD_BITS
    for _ in range(20):
        codes = draw.sample([first + n for n in (0, 1, 5, 1000, (1 << ITEM_SHARD_BITS) - 1)], draw.randrange(1, 5))
        counts = [draw.randrange(1, 2**40) for _ in codes]
        total.update(dict(zip(codes, counts, strict=True)))
        streams.append(make_table(item=pa.array(codes, pa.uint32()), count=pa.array(counts)))
    answers = [add_up_codes(shard, streams[::step], Layout(5 << ITEM_SHARD_BITS)) for step in (1, -1)]
    assert answers[0].equals(answers[1])
    table = answers[0]
    assert dict(zip(table["item"].to_pylist(), table["count"].to_pylist(), strict=True)) == total


@pytest.mark.parametrize("keep", [None, 1, 3, 7, 100])
def test_labels_add_up_and_the_largest_stay_in_public_order(keep: int | None) -> None:
    parts = [{"a": 5, "é": 2, "b": 2}, {"b": 3, "z": 2, "🎵": 2}, {"Z": 2, "a": 1}]
    streams = [make_table(item=pa.array(list(part)), count=pa.array(list(part.values()))) for part in parts]
    total = Counter(parts[0]) + Counter(parts[1]) + Counter(parts[2])
    order = sorted(total.items(), key=lambda entry: (-entry[1], entry[0].encode()))[:keep]
    for turn in (1, -1):
        table = add_up_labels(streams[::turn], keep)
        assert list(zip(table["item"].to_pylist(), table["count"].to_pylist(), strict=True)) == order


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_the_largest_of_many_equal_ones(kind: pa.DataType) -> None:
    draw = random.Random(2)
    for _ in range(200):
        labels = [f"é{n}" if n % 3 else f"{n}" for n in draw.sample(range(60), draw.randrange(40))]
        counts = [draw.randrange(1, 4) for _ in labels]
        keep = draw.randrange(1, 12)
        order = sorted(zip(labels, counts, strict=True), key=lambda entry: (-entry[1], entry[0].encode()))[:keep]
        found = largest(pa.table({"item": pa.array(labels, kind), "count": pa.array(counts, pa.int64())}), keep)
        assert list(zip(found["item"].to_pylist(), found["count"].to_pylist(), strict=True)) == order


def test_largest_of_nothing() -> None:
    table = pa.table({"item": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
    assert len(largest(table, 3)) == 0


@pytest.mark.parametrize("cells", [1 << 20, 0], ids=["in a vector", "by a sort"])
def test_users_are_added_up_beside_weights(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_MOST_CELLS", cells)
    some = [([3, 5], [7, 9], [1, 1]), ([5, 8], [2, 4], [2, 1])]
    parts = [make_table(item=np.array(i, np.uint32), count=np.array(c), users=np.array(u)) for i, c, u in some]
    total = add_up_codes(0, parts, Layout(9))
    assert total.to_pydict() == {"item": [3, 5, 8], "count": [7, 11, 4], "users": [1, 3, 1]}
