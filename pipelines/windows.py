"""Cutting blocks by event time into the windows of the declared period."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import TimestampedValue

from private_topk.transforms.blocks import left_out
from private_topk.transforms.columnar import partition
from private_topk.transforms.top_k import declared_windows, stamped
from private_topk.transforms.windows import Period

__all__ = ["CutIntoWindows"]


@beam.typehints.with_output_types(pa.RecordBatch)
class CutIntoWindows(beam.PTransform):
    """Blocks with times to blocks of one window each. Rows outside the period are left out and counted."""

    def __init__(self, period: Period) -> None:
        super().__init__()
        self._period = period

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        # block with the column time  ->  block of users and items, at the start of its window
        cut = blocks | "Split by window" >> beam.ParDo(_SplitDoFn(self._period))
        return cut | "Into windows" >> declared_windows(self._period)


class _SplitDoFn(beam.DoFn):
    def __init__(self, period: Period) -> None:
        self._period = period
        self._left_out = left_out("outside_the_period")

    def process(self, block: pa.RecordBatch) -> Iterator[TimestampedValue]:
        numbers = self._period.number(block["time"].to_numpy())
        rows = block.select(["user", "item"])
        outside = int((numbers < 0).sum())
        if outside:
            self._left_out.inc(outside)
        for place, members in partition(numbers + 1, len(self._period) + 1):
            if place:
                yield stamped(rows.take(pa.array(members)), self._period.start_of(place - 1))
