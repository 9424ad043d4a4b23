from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from private_topk.transforms import rows as rows_module
from private_topk.transforms.columnar import make_block
from private_topk.transforms.counters import exact_counters
from private_topk.transforms.parts import Part, PartCoder
from private_topk.transforms.rows import BlockCoder, MakeBlocks
from tests.transforms.pipelines import outcome


def test_blocks_travel_as_they_are() -> None:
    block = make_block(pa.array(["a", "é", ""]), pa.array([1, 2, 3]), pa.array([5, 6, 7]))[0]
    coder = BlockCoder()
    for part in (block, block.slice(1, 1), block.slice(0, 0)):
        assert coder.decode(coder.encode(part)).to_pylist() == part.to_pylist()
    assert beam.coders.registry.get_coder(pa.RecordBatch).__class__ is BlockCoder


def test_to_know_its_size_no_block_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam asks for the size of many elements, for its metrics."""
    block = make_block(pa.array(["a", "é", ""]), pa.array([1, 2, 3]))[0]
    part = Part(np.arange(3), block)
    monkeypatch.setattr(BlockCoder, "encode", lambda *_: pytest.fail("encoded"))
    monkeypatch.setattr(PartCoder, "encode", lambda *_: pytest.fail("encoded"))
    assert BlockCoder().get_impl().estimate_size(block) == block.nbytes > 0
    assert PartCoder().get_impl().estimate_size(part) == block.nbytes + 24


def test_pairs_gather_by_window_in_blocks_of_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "_ROWS", 500)  # of 50,000
    rows = [((n, "i"), 5 if n % 3 else 15) for n in range(1200)]

    def build(p: beam.Pipeline) -> beam.PCollection:
        pairs = p | beam.Create([rows]) | beam.FlatMap(lambda all_: [TimestampedValue(*row) for row in all_])
        return (
            pairs | beam.WindowInto(FixedWindows(10)) | MakeBlocks() | beam.Map(lambda block: block["user"].to_pylist())
        )

    found = outcome(build)
    assert sorted(len(users) for _, users in found) == [300, 400, 500]
    for start, third in [(0, False), (10, True)]:
        users = [user for at, block in found for user in block if at == start * 10**6]
        assert sorted(map(int, users)) == [n for n in range(1200) if (n % 3 == 0) == third]


def test_pairs_with_a_null_are_left_out_and_counted(tmp_path: Path) -> None:
    pipeline = beam.Pipeline(FnApiRunner())
    with exact_counters():
        _ = pipeline | beam.Create([("a", "x"), (None, "x"), ("a", None), (5, 7)]) | MakeBlocks()
    result = pipeline.run()
    [counter] = result.metrics().query()["counters"]
    assert counter.key.metric.name == "operator_only_rows_left_out_null" and counter.committed == 2
