"""Assignment of rows to the declared windows, and the Beam windows that represent these on any runner.

Portable runners support only the windows of Beam's own window functions, which have no calendars. So every declared
window is represented by one of Beam's `FixedWindows`: the cell of a regular grid whose last millisecond is the one in
which the declared window closes. It fires when the watermark reaches that, and rows are late after it, exactly as for
the declared window.

No element has the last timestamp of such a window. A timer set for it may fire while elements with the same timestamp
are still to come, and these would be lost.

Rankings leave in the declared windows themselves, by which other streams are joined with them. Such a window ends
before it closes, so for what follows the watermark must not pass its end until its ranking is out: from the start on,
every window has an element with a timestamp just before its end, and what is grouped keeps its earliest timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.trigger import AccumulationMode, AfterWatermark
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    TimestampCombiner,
    TimestampedValue,
)
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.transforms.columnar import Codes, are_pairs, make_table, of_rows, partition
from private_topk.transforms.completeness import (
    ReaderReceipt,
    checksum_in,
    checksum_of_piece,
    closed_in,
    receipt_in,
    with_checksum,
)
from private_topk.transforms.counters import BundleStart, DroppedRows
from private_topk.transforms.errors import InvalidArgument, crosses
from private_topk.transforms.release import Ranking
from private_topk.transforms.rows import late_moment
from private_topk.transforms.steps import WindowInto, flat_map
from private_topk.transforms.windows import Period, WindowBounds, from_microseconds, microseconds
from private_topk.transforms.windows.period import TimeSlices

_KEYS = 16
_EARLIEST = TimestampCombiner.OUTPUT_AT_EARLIEST
_TICK = 1000
"""A millisecond: the resolution of timestamps in portable runners."""
_YEAR = 366 * 86_400e6
"""Microseconds: a row's time in another unit is further than this from when it came."""


@beam.typehints.with_input_types(pa.RecordBatch)
@beam.typehints.with_output_types(pa.RecordBatch)
class AssignWindows(beam.PTransform):
    """Blocks with times to blocks in their declared windows. Rows outside the period are dropped and counted.

    Of a bounded input a window is a number: blocks get the columns `first` and, where windows overlap, `after`, the
    windows of each row (none where there is only one window). Those of an unbounded input close at different times,
    so there every window is one of Beam's.

    Where a block also has a column `arrived`, a row is late for the windows that had closed when it arrived, wherever
    the watermark stands: so which rows are late depends on themselves alone, and not on what other users did. Where the
    reader of an unbounded input has stated what it sent of a window, rows that it reads later are late for it as well.
    Without a period, blocks stay in the windows that they are in.

    Args:
        step: the number of the window to date that is published alone. Rows that are late for those before it are in
            this one, since they did not count in the others; amounts of such rows are dropped, since nobody could tell
            whether they did. Blocks of what was counted before have numbers already.
    """

    def __init__(self, period: Period | None, step: int | None = None) -> None:
        super().__init__()
        self._period, self._step = period, step

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        if self._period is None:
            return blocks
        if blocks.is_bounded:
            # block with the column time  ->  block of users and items and the numbers of their windows
            # At their earliest time: behind a grouping at the end of the global window, rankings, which go back to the
            # ends of theirs, would be late for what follows, and dropped (Prism).
            everything = blocks | "Out of the windows" >> WindowInto(GlobalWindows(), timestamp_combiner=_EARLIEST)
            return everything | "Number the windows" >> beam.ParDo(_NumberDoFn(self._period, self._step))
        if _grid(self._period)[0] == _TICK:
            raise InvalidArgument(
                "",
                "the windows of a stream must close on a grid of two milliseconds or more",
                "end the period by the second",
            )
        # block with the column time  ->  block of users and items, in its windows
        return (
            blocks
            | "Stamp"
            >> flat_map(lambda block, moment: [TimestampedValue(block, moment)], last_moment(self._period, -1))
            | "Enter the windows" >> into_windows(self._period)
            | "Split by window" >> beam.ParDo(SplitDoFn(self._period))
        )


@beam.typehints.with_input_types(pa.RecordBatch)
@beam.typehints.with_output_types(pa.RecordBatch)
class DropLateBlocks(beam.PTransform):
    """Blocks of a stream to those that are not late, whole.

    A runner drops what is late where it keeps state. Behind "Shard by user" that could be one piece of a block and not
    another, where subtasks have watermarks of their own: their checksums would no longer cancel, and a late row would
    end the job as a loss. Here a block is dropped with all of its rows, and what has passed is in time for whatever
    follows. For streams whose readers state nothing; others let no row be late by the watermark.
    """

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        return (
            blocks
            | "By turns" >> beam.ParDo(_TurnsDoFn()).with_output_types(tuple[int, pa.RecordBatch])
            | "Drop" >> beam.ParDo(_PassDoFn()).with_output_types(pa.RecordBatch)
        )


@crosses
class _TurnsDoFn(beam.DoFn):
    """Each block under one of a few keys, which do not matter: they share the work out."""

    def setup(self) -> None:
        self._next = 0

    def process(self, block: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        self._next = (self._next + 1) % _KEYS
        yield self._next, block


@crosses
class _PassDoFn(beam.DoFn):
    """Passes elements on; that it has a state, though it never uses it, makes the runner drop what is late."""

    _STATE = ReadModifyWriteStateSpec("none", VarIntCoder())

    def process(
        self,
        element: tuple[int, pa.RecordBatch],
        state: Any = beam.DoFn.StateParam(_STATE),  # noqa: ANN401, B008 - Beam's convention
    ) -> Iterator[pa.RecordBatch]:
        yield element[1]


class EveryWindow(beam.PTransform):
    """Blocks to one element for every window that is published, which is in that window.

    Of a declared period these are all windows, with rows or without, and so is the one global window. Of other windows
    only those of the blocks are known: each is named once a bundle or more.

    Args:
        windows: which they are: of `period`, as Beam's windows; the one that holds everything; or those of the blocks.
    """

    def __init__(self, period: Period | None, windows: Literal["declared", "one", "active"]) -> None:
        super().__init__()
        self._period, self._windows = period if windows == "declared" else None, windows

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        if self._windows == "active":
            return blocks | "Those of the rows" >> beam.ParDo(_ActiveDoFn()).with_output_types(int)
        return (
            blocks.pipeline
            | beam.Impulse()
            | "Those declared" >> flat_map(_declared, self._period).with_output_types(int)
            | "Into the same windows" >> WindowInto(blocks.windowing)
            | "Until its end" >> beam.ParDo(_HoldDoFn(self._period)).with_output_types(int)
        )


def _declared(_: bytes, period: Period | None) -> Iterator[Any]:
    if period is None:
        yield 0
    else:
        yield from (TimestampedValue(0, last_moment(period, number)) for number in range(len(period)))


@crosses
class _HoldDoFn(beam.DoFn):
    def __init__(self, period: Period | None) -> None:
        self._period = period

    def process(self, element: int, window: Any = beam.DoFn.WindowParam) -> Iterator[int | WindowedValue]:  # noqa: ANN401, B008
        if self._period is None:
            yield element
        else:
            end = declared_window(self._period, window).end
            assert end is not None
            yield WindowedValue(element, Timestamp(micros=microseconds(end) - 2 * _TICK), (window,))


@crosses
class _ActiveDoFn(beam.DoFn):
    def start_bundle(self) -> None:
        self._windows: set[Any] = set()

    def process(self, block: pa.RecordBatch, window: Any = beam.DoFn.WindowParam) -> None:  # noqa: ANN401
        self._windows.add(window)

    def finish_bundle(self) -> Iterable[WindowedValue]:
        for window in self._windows:
            yield WindowedValue(0, late_moment(window), (window,))


@crosses
class _PlaceDoFn(beam.DoFn):
    """Counts the rows that are in no window, apart those that came in another year, and those of which every window
    has closed.
    """

    def __init__(self, period: Period) -> None:
        self._period = period
        self._dropped = {reason: DroppedRows(reason) for reason in ("outside_the_period", "a_year_off", "late")}
        self._start = BundleStart()

    def start_bundle(self) -> None:
        self._start.begin()

    def _count(self, block: pa.RecordBatch, outside: np.ndarray, late: np.ndarray) -> None:
        off = np.zeros_like(outside)
        if "arrived" in block.schema.names:
            time, arrived = (block[name].to_numpy().astype(float) for name in ("time", "arrived"))
            off = outside & (np.abs(time - arrived) > _YEAR)
        counted = zip(self._dropped, (outside & ~off, off, late), strict=True)
        dropped = {reason: int(rows.sum()) for reason, rows in counted}
        for reason, rows in dropped.items():
            self._dropped[reason].inc(rows)
        self._start.note(len(outside) - sum(dropped.values()), dropped)


@crosses
class _NumberDoFn(_PlaceDoFn):
    def __init__(self, period: Period, step: int | None = None) -> None:
        super().__init__(period)
        self._step = step

    def process(self, block: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if receipt_in(block) is not None or are_pairs(block):
            yield block
            return
        first, after = self._period.spans(block["time"].to_numpy())
        if self._step is not None:  # rows of later steps are of later calls
            after = np.minimum(after, self._step + 1)
        outside = first >= after
        if "arrived" in block.schema.names:
            still_open = np.searchsorted(self._period.closing, block["arrived"].to_numpy(), side="right")
            first = np.maximum(first, still_open)
        inside = first < after
        if self._step is not None:
            inside &= (first == self._step) | ("value" not in block.schema.names)
            first = np.maximum(first, self._step)
        self._count(block, outside, ~outside & ~inside)
        rows = of_rows(block)
        spans = [first, after][: 0 if len(self._period) == 1 else 1 + self._period.repeats]
        if not inside.all():
            rows, spans = rows.filter(pa.array(inside)), [span[inside] for span in spans]
        checksum = checksum_in(block)
        if len(rows) or checksum is not None:  # a checksum must be passed on even if no row is left
            columns = dict(zip(("first", "after"), spans, strict=False))
            table = make_table(**{name: rows[name] for name in rows.schema.names}, **columns)
            yield with_checksum(table, checksum)


@crosses
class SplitDoFn(_PlaceDoFn):
    """Rows between two neighbouring edges of windows share all of their windows: one block in several."""

    def setup(self) -> None:
        self._beam_windows = beam_windows(self._period)
        self._moments = [last_moment(self._period, number) for number in range(len(self._period))]
        self._slices = TimeSlices(self._period)

    def process(self, block: pa.RecordBatch) -> Iterator[WindowedValue]:
        sent = receipt_in(block)
        if sent is not None:
            yield from self._by_window(sent)
            return
        arrived = block["arrived"].to_numpy() if "arrived" in block.schema.names else None
        time_slice, open_from = self._slices.of(block["time"].to_numpy(), arrived, closed_in(block))
        firsts, afters = self._slices.first[time_slice], self._slices.after[time_slice]
        self._count(block, firsts == afters, (firsts < afters) & (open_from >= afters))
        rows, checksum = of_rows(block), checksum_in(block)
        late = bool(np.any(open_from > firsts))
        for at, members in partition(time_slice, len(self._slices)):
            first = int(self._slices.first[at])
            for opening, some in _parted(open_from[members], members) if late else [(first, members)]:
                windows = self._beam_windows[opening : int(self._slices.after[at])]
                if windows:
                    piece_checksum = (
                        None if checksum is None else checksum_of_piece(checksum, at, opening, len(self._beam_windows))
                    )
                    piece = with_checksum(rows.take(pa.array(some)), piece_checksum)
                    yield WindowedValue(piece, self._moments[opening], tuple(windows))

    def _by_window(self, sent: ReaderReceipt) -> Iterator[WindowedValue]:
        for number, total in enumerate(sent.sums, sent.first):
            block = ReaderReceipt(sent.reader, number, [total]).block()
            yield WindowedValue(block, self._moments[number], (self._beam_windows[number],))


def _parted(firsts: Codes, members: Codes) -> Iterator[tuple[int, Codes]]:
    for first in np.unique(firsts).tolist():
        yield first, members[firsts == first]


def beam_windows(period: Period) -> list[IntervalWindow]:
    """Beam's window for every declared one, in order."""
    size, _ = _grid(period)
    ends = (period.closing + _TICK).tolist()
    return [IntervalWindow(Timestamp(micros=end - size), Timestamp(micros=end)) for end in ends]


def into_windows(period: Period) -> WindowInto:
    """The windowing of `beam_windows`: one firing each, at the watermark, no lateness."""
    size, offset = _grid(period)
    windowfn, discarding = FixedWindows(Duration(micros=size), Timestamp(micros=offset)), AccumulationMode.DISCARDING
    return WindowInto(
        windowfn,
        trigger=AfterWatermark(),
        accumulation_mode=discarding,
        allowed_lateness=0,
        timestamp_combiner=_EARLIEST,
    )


def last_moment(period: Period, number: int) -> Timestamp:
    """The timestamp for elements of a window: the last one before it closes, but a microsecond before the last one of
    Beam's window, unless that is no longer than a millisecond.
    """
    size, _ = _grid(period)
    return Timestamp(micros=int(period.closing[number]) - (size > _TICK))


@beam.typehints.with_output_types(Ranking)
class IntoWindows(beam.PTransform):
    """Puts rankings into the declared windows: where these have one length, those of Beam's `FixedWindows`."""

    def __init__(self, period: Period) -> None:
        super().__init__()
        start, end = int(period.starts[0]), int(period.ends[0])
        self._windowfn = FixedWindows(Duration(micros=end - start), Timestamp(micros=start % (end - start)))

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        return (
            rankings
            | "Stamp" >> flat_map(lambda ranking: [TimestampedValue(ranking, _own_window(ranking).max_timestamp())])
            | WindowInto(self._windowfn)
            | "Own window" >> flat_map(_in_own_window)
        )


def _own_window(ranking: Ranking) -> IntervalWindow:
    start, end = ranking.window.start, ranking.window.end
    assert start is not None and end is not None
    return IntervalWindow(Timestamp(micros=microseconds(start)), Timestamp(micros=microseconds(end)))


def _in_own_window(ranking: Ranking) -> Iterator[WindowedValue]:
    """Of windows that slide or follow a calendar, `WindowInto` knows others than the declared ones."""
    window = _own_window(ranking)
    yield WindowedValue(ranking, window.max_timestamp(), (window,))


def declared_window(period: Period, window: Any) -> WindowBounds:  # noqa: ANN401 - a Beam window
    """The declared window that one of Beam's stands for. Raises RuntimeError for a window that was not declared."""
    closing = window.end.micros - _TICK
    number = int(np.searchsorted(period.closing, closing))
    if number == len(period) or period.closing[number] != closing:
        raise RuntimeError("a window that was not declared reached the release stage: nothing is released for it")
    return period.window(number)


def window_named(period: Period | None, number: int, window: Any, several: bool) -> WindowBounds:  # noqa: ANN401
    """The declared window of a number where tables hold several, or that of Beam's window."""
    if several:
        assert period is not None
        return period.window(number)
    if isinstance(window, IntervalWindow):
        if period is not None:
            return declared_window(period, window)
        try:
            return WindowBounds(from_microseconds(window.start.micros), from_microseconds(window.end.micros))
        except OverflowError:  # Beam's default timestamp is long before the year 1
            raise InvalidArgument(
                "",
                "windows of the input must lie within the years 1 to 9999",
                "give elements their event times, as beam.window.TimestampedValue does",
            ) from None
    return WindowBounds() if period is None else period.window(0)


@lru_cache(maxsize=64)
def _grid(period: Period) -> tuple[int, int]:
    """Size and offset of the coarsest grid on which every window closes in the last tick of a piece, no two in one."""
    closing = period.closing
    size = int(np.gcd.reduce(np.append(np.diff(closing), period.ends[0] - period.starts[0])))
    return size, int(closing[0] + _TICK) % size
