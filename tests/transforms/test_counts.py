from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms import combine
from private_topk.transforms.columnar import make_table
from private_topk.transforms.combine import add_up, add_up_labels, largest
from private_topk.transforms.parts import PlacedPart, with_manifest
from private_topk.transforms.plan import ITEM_SHARD_BITS, Layout


@pytest.mark.parametrize("keep", [None, 1, 3, 7, 100])
def test_labels_add_up_and_the_largest_stay_in_public_order(keep: int | None) -> None:
    parts = [{"a": 5, "é": 2, "b": 2}, {"b": 3, "z": 2, "🎵": 2}, {"Z": 2, "a": 1}]
    streams = [make_table(item=pa.array(list(part)), count=pa.array(list(part.values()))) for part in parts]
    total = Counter(parts[0]) + Counter(parts[1]) + Counter(parts[2])
    order = sorted(total.items(), key=lambda entry: (-entry[1], entry[0].encode()))[:keep]
    for turn in (1, -1):
        table = add_up_labels(streams[::turn], keep)
        assert list(zip(table["item"].to_pylist(), table["count"].to_pylist(), strict=True)) == order


@pytest.mark.parametrize("many", [0, 5, 1 << 12])
@pytest.mark.parametrize("keep", [None, 1, 4, 30])
def test_the_largest_of_every_window(keep: int | None, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of no row to thirty, cut one by one or sorted all together."""
    monkeypatch.setattr(combine, "_MANY", many)
    draw = random.Random(3)
    for _ in range(50):
        rows = [(window, f"é{n}" if n % 3 else f"{n}", draw.randrange(1, 4)) for window in draw.sample(range(9), 5)
                for n in draw.sample(range(60), draw.randrange(31))]  # fmt: skip
        draw.shuffle(rows)
        order = sorted(rows, key=lambda row: (row[0], -row[2], row[1].encode()))
        wanted = [row for window in range(9) for row in [row for row in order if row[0] == window][:keep]]
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        kinds = {"window": pa.uint32(), "item": pa.large_string(), "count": pa.int64()}
        table = pa.table({name: pa.array(its, kinds[name]) for name, its in zip(kinds, columns, strict=True)})
        assert [tuple(row.values()) for row in largest(table, keep).to_pylist()] == wanted


class TestWhatIsAtHand:
    """Parts that a bundle adds up before they are grouped: the same sums, and every source named once."""

    def test_it_is_added_up_by_place_whatever_the_bundles_are(self, monkeypatch: pytest.MonkeyPatch) -> None:
        layout = Layout(3 << ITEM_SHARD_BITS)
        state = np.random.default_rng(7)
        parts = [
            placed
            for shard in range(16)
            for placed in with_manifest(shard, [(place, _some(state, place)) for place in range(3)], lambda: 5)
        ]
        expected = _summed_up(parts, layout)
        for most in (1, 40, 10**6):
            monkeypatch.setattr(combine, "_ROWS_AT_HAND", most)
            fn = combine._AddAheadDoFn(layout)
            ahead = []
            for bundle in (parts[:5], parts[5:6], [], parts[6:]):
                fn.start_bundle()
                for placed in bundle:
                    ahead += fn.process(placed)
                ahead += [late.value for late in fn.finish_bundle()]
            assert _summed_up(ahead, layout) == expected
            assert len(ahead) <= len(parts) and (most < 10**6 or len(ahead) <= 3 * 4)

    def test_no_part_becomes_larger_than_a_runner_can_group(self) -> None:
        """Counts of a year of days: six windows a place, of 60,000 items each. Those that fit are added up as ever."""
        layout = Layout(60_000, windows=365)
        column = np.repeat(np.arange(6, dtype=np.uint32), layout.size)
        items = np.tile(np.arange(layout.size, dtype=np.uint32), 6)
        wide = make_table(window=column, item=items, count=np.ones(len(items), np.int64))
        few = make_table(window=column[:9] + 6, item=items[:9], count=np.ones(9, np.int64))
        parts = [placed for shard in (0, 1) for placed in with_manifest(shard, [(0, wide), (1, few)])]
        fn = combine._AddAheadDoFn(layout)
        fn.start_bundle()
        ahead = [placed for each in parts for placed in fn.process(each)] + [late.value for late in fn.finish_bundle()]
        assert max(len(part.table) for _, part in ahead) <= 1 << 16 and sum(place == 1 for place, _ in ahead) == 1
        assert _summed_up(ahead, layout) == _summed_up(parts, layout)


def _some(state: np.random.Generator, place: int) -> pa.RecordBatch:
    codes = np.sort(state.choice(1 << ITEM_SHARD_BITS, 20, replace=False)) + (place << ITEM_SHARD_BITS)
    return make_table(item=codes.astype(np.uint32), count=state.integers(1, 9, 20))


def _summed_up(parts: list[PlacedPart], layout: Layout) -> dict[int, tuple[list[int], object]]:
    found = {}
    for place in sorted({place for place, _ in parts}):
        _, part = add_up(place, [part for at, part in parts if at == place], layout)
        rows = part.table.to_pydict()
        found[place] = sorted(part.sources.tolist()), rows if place >= 0 else {n: sorted(c) for n, c in rows.items()}
    return found
