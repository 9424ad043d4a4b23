"""Rows to blocks: the only place where single Python objects are handled, for pipelines of (user, item) pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import registry
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.transforms.columnar import LONGEST_LABEL, make_block
from private_topk.transforms.counters import LeftOutRows
from private_topk.transforms.elements import Shape

__all__ = ["BlockCoder", "MakeBlocks", "late_moment"]

_ROWS = 50_000
_LETTERS = 16 << 20
"""Of all windows together, after which blocks are made whatever their rows."""


class BlockCoder(beam.coders.Coder):
    """Blocks between workers: Arrow IPC, no pickle."""

    def encode(self, value: pa.RecordBatch) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_batch(value)
        return sink.getvalue().to_pybytes()

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        return pa.ipc.open_stream(encoded).read_next_batch()

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """In bytes, for Beam's metrics: by itself it would encode every block once more to know."""
        return value.nbytes

    def is_deterministic(self) -> bool:
        return False


registry.register_coder(pa.RecordBatch, BlockCoder)


@beam.typehints.with_output_types(pa.RecordBatch)
class MakeBlocks(beam.PTransform):
    """Elements that hold a user and an item to blocks, a window at a time. Users and items are strings or integers.

    Elements with a None, or without an amount, are left out and counted, and so is what is of another shape, and texts
    that are no Unicode or longer than 4,096 bytes of UTF-8. A type that Beam knows, and of which no element is of this
    shape, raises here.

    Args:
        with_times: also a column of the elements' event times.
        shape: where the user and the item are, and the amount where there are amounts.
    """

    def __init__(self, with_times: bool = False, shape: Shape | None = None) -> None:
        super().__init__()
        self._with_times, self._shape = with_times, shape or Shape()

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        # pairs: (user, item)  ->  block of up to 50,000 rows, of one window
        self._shape.check(pairs.element_type)
        return pairs | "Gather pairs into blocks" >> beam.ParDo(self.gathering())

    def gathering(self) -> _GatherDoFn:
        """What is done on the workers."""
        return _GatherDoFn(self._with_times, self._shape)


class _GatherDoFn(beam.DoFn):
    def __init__(self, with_times: bool, shape: Shape) -> None:
        self._left_out = {reason: LeftOutRows(reason) for reason in ("null", "unreadable")}
        self._with_times, self._shape = with_times, shape

    def start_bundle(self) -> None:
        self._rows: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
        self._letters = 0

    def process(
        self,
        element: Any,  # noqa: ANN401
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401, B008 - Beam's convention
        time: Any = beam.DoFn.TimestampParam,  # noqa: ANN401, B008
    ) -> Iterator[pa.RecordBatch | WindowedValue]:
        row = self._shape.values(element)
        if isinstance(row, str):
            self._left_out[row].inc()
            return
        texts = [part for part in row if isinstance(part, str)]
        if any(map(_is_too_long, texts)):
            self._left_out["unreadable"].inc()
            return
        self._letters += sum(map(len, texts))
        rows = self._rows[window]
        rows.append((*row, time.micros) if self._with_times else row)
        if len(rows) >= _ROWS:
            yield self._block(self._rows.pop(window))
        if self._letters >= _LETTERS:
            yield from self.finish_bundle()

    def finish_bundle(self) -> Iterable[WindowedValue]:
        for window, rows in self._rows.items():
            yield WindowedValue(self._block(rows), late_moment(window), (window,))
        self._rows.clear()
        self._letters = 0

    def _block(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        try:
            return self._columns(rows)
        except UnicodeEncodeError:  # half of a surrogate pair: Python holds it as text, and nothing else does
            whole = [row for row in rows if all(_is_unicode(part) for part in row if isinstance(part, str))]
            self._left_out["unreadable"].inc(len(rows) - len(whole))
            return self._columns(whole)

    def _columns(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        kinds = {"users": pa.string(), "items": pa.string()}
        kinds |= {"groups": pa.string()} if self._shape.groups else {}
        kinds |= {"amounts": pa.float64()} if self._shape.amounts else {}
        kinds |= {"times": pa.int64()} if self._with_times else {}
        columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
        arrays = {name: pa.array(values, kinds[name]) for name, values in zip(kinds, columns, strict=True)}
        return make_block(**arrays)[0]


def late_moment(window: Any) -> Timestamp:  # noqa: ANN401 - a Beam window
    """A moment late in a window, but a millisecond before its last: a timer of that one may fire while elements with
    the same timestamp are still to come.
    """
    return max(
        window.max_timestamp() - Duration(micros=1000), window.start if hasattr(window, "start") else MIN_TIMESTAMP
    )


def _is_too_long(text: str) -> bool:
    return len(text) * 4 > LONGEST_LABEL and len(text.encode("utf-8", "surrogatepass")) > LONGEST_LABEL


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
