"""Placing blocks in the declared windows, on any runner.

Portable runners know the windows of Beam's own window functions and no others: windows of a calendar are none of them.
So every declared window is represented by a *cell*: the piece of a regular grid, Beam's `FixedWindows`, that ends when
the window closes. A cell fires when the watermark passes its end, and rows are late after that: exactly as the
declared window would have it. Windows that follow each other without gap are their own cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms import trigger
from apache_beam.transforms.window import FixedWindows, IntervalWindow, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.transforms.blocks import left_out
from private_topk.transforms.columnar import Codes, partition
from private_topk.transforms.windows import Period, WindowBounds

__all__ = ["CutIntoWindows", "bounds_of_cell", "cells", "enter_cells", "fire_once", "last_moment"]


@beam.typehints.with_input_types(pa.RecordBatch)
@beam.typehints.with_output_types(pa.RecordBatch)
class CutIntoWindows(beam.PTransform):
    """Blocks with times to blocks in their declared windows. Rows outside the period are left out and counted.

    Where a block also has a column `arrived`, a row is late for the windows that had closed when it arrived, wherever
    the watermark stands: so which rows are late depends on themselves alone, and not on what other users did.
    """

    def __init__(self, period: Period) -> None:
        super().__init__()
        self._period = period

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        # block with the column time  ->  block of users and items, in the cells of its windows
        return (
            blocks
            | "Stamp" >> beam.Map(TimestampedValue, last_moment(self._period, -1))
            | "Enter the cells" >> enter_cells(self._period)
            | "Split by window" >> beam.ParDo(_SplitDoFn(self._period))
        )


class _SplitDoFn(beam.DoFn):
    """Rows between two neighbouring edges of windows share all of their windows: one block in several cells."""

    def __init__(self, period: Period) -> None:
        self._period = period
        self._outside, self._late = left_out("outside_the_period"), left_out("late")

    def setup(self) -> None:
        self._cells = cells(self._period)
        self._edges = np.union1d(self._period.starts, self._period.ends)
        before = np.append(self._edges[:1] - 1, self._edges)  # a time of every stretch between two edges
        self._first, self._after = self._period.spans(before)

    def process(self, block: pa.RecordBatch) -> Iterator[WindowedValue]:
        stretch = np.searchsorted(self._edges, block["time"].to_numpy(), side="right")
        _count(self._outside, (self._first == self._after)[stretch])
        rows = block.select(["user", "item"])
        late = self._late_for(block, stretch) if "arrived" in block.schema.names else None
        for place, members in partition(stretch, len(self._first)):
            for first, some in (
                [(int(self._first[place]), members)] if late is None else _parted(late[members], members)
            ):
                windows = self._cells[first : int(self._after[place])]
                if windows:
                    yield WindowedValue(rows.take(pa.array(some)), windows[0].max_timestamp(), tuple(windows))

    def _late_for(self, block: pa.RecordBatch, stretch: Codes) -> Codes | None:
        """The first window that every row is on time for, where that is not the first that it lies in; None if none."""
        still_open = np.searchsorted(self._period.closing, block["arrived"].to_numpy(), side="right")
        first, after = self._first[stretch], self._after[stretch]
        _count(self._late, (first < after) & (still_open >= after))
        return np.maximum(first, still_open) if np.any(still_open > first) else None


def _parted(firsts: Codes, members: Codes) -> Iterator[tuple[int, Codes]]:
    for first in np.unique(firsts).tolist():
        yield first, members[firsts == first]


def _count(counter: Any, rows: np.ndarray) -> None:  # noqa: ANN401 - a Beam counter
    if rows.any():
        counter.inc(int(rows.sum()))


def cells(period: Period) -> list[IntervalWindow]:
    """The cell of every declared window, in order."""
    size, _ = _grid(period)
    return [IntervalWindow(Timestamp(micros=end - size), Timestamp(micros=end)) for end in period.closing.tolist()]


def enter_cells(period: Period) -> beam.WindowInto:
    """The windowing of the cells: one firing each, at the watermark, no lateness."""
    size, offset = _grid(period)
    return fire_once(FixedWindows(Duration(micros=size), Timestamp(micros=offset)))


def fire_once(windowfn: WindowFn) -> beam.WindowInto:
    discarding = trigger.AccumulationMode.DISCARDING
    return beam.WindowInto(windowfn, trigger=trigger.AfterWatermark(), accumulation_mode=discarding, allowed_lateness=0)


def last_moment(period: Period, number: int) -> Timestamp:
    """An event time in the cell of a window: its last."""
    return Timestamp(micros=int(period.closing[number]) - 1)


def bounds_of_cell(period: Period, cell: Any) -> WindowBounds:  # noqa: ANN401 - a Beam window
    """The declared window of a cell. Raises RuntimeError for a window that was not declared."""
    number = int(np.searchsorted(period.closing, cell.end.micros))
    if number == len(period) or period.closing[number] != cell.end.micros:
        raise RuntimeError("a window that was not declared reached the release stage: nothing is released for it")
    return period.window(number)


def _grid(period: Period) -> tuple[int, int]:
    """Size and offset of the coarsest grid on which every window closes at an edge, and no two at the same."""
    closing = period.closing
    size = int(np.gcd.reduce(np.append(np.diff(closing), period.ends[0] - period.starts[0])))
    return size, int(closing[0]) % size
