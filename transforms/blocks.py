"""Rows to blocks: the only place where single Python objects are handled, for pipelines of (user, item) pairs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from numbers import Real
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import registry
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.transforms.columnar import make_block
from private_topk.transforms.counters import LeftOutRows

__all__ = ["BlockCoder", "MakeBlocks", "late_moment"]

_ROWS = 50_000


class BlockCoder(beam.coders.Coder):
    """Blocks between workers: Arrow IPC, no pickle."""

    def encode(self, value: pa.RecordBatch) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_batch(value)
        return sink.getvalue().to_pybytes()

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        return pa.ipc.open_stream(encoded).read_next_batch()

    def is_deterministic(self) -> bool:
        return False


registry.register_coder(pa.RecordBatch, BlockCoder)


@beam.typehints.with_output_types(pa.RecordBatch)
class MakeBlocks(beam.PTransform):
    """(user, item) pairs to blocks, a window at a time. Users and items are strings or integers.

    Pairs with a None are left out and counted; anything else that is no pair of labels raises, without showing it.

    Args:
        with_times: also a column of the elements' event times.
        with_amounts: the elements are (user, item, amount). Without an amount, None or NaN, they are left out as well.
    """

    def __init__(self, with_times: bool = False, with_amounts: bool = False) -> None:
        super().__init__()
        self._fn = _GatherDoFn(with_times, with_amounts)

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        # pairs: (user, item)  ->  block of up to 50,000 rows, of one window
        return pairs | "Gather pairs into blocks" >> beam.ParDo(self._fn)


class _GatherDoFn(beam.DoFn):
    def __init__(self, with_times: bool, with_amounts: bool) -> None:
        self._left_out = LeftOutRows("null")
        self._with_times, self._with_amounts = with_times, with_amounts
        self._names = ["users", "items", *["times"] * with_times, *["amounts"] * with_amounts]

    def start_bundle(self) -> None:
        self._rows: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)

    def process(
        self,
        pair: tuple[Any, ...],
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401, B008 - Beam's convention
        time: Any = beam.DoFn.TimestampParam,  # noqa: ANN401, B008
    ) -> Iterator[pa.RecordBatch]:
        labels, amount = self._parts(pair)
        row = _labels(labels)
        if row is None or amount is None:
            self._left_out.inc()
            return
        rows = self._rows[window]
        rows.append((*row, *[time.micros] * self._with_times, *[amount] * self._with_amounts))
        if len(rows) >= _ROWS:
            yield self._block(self._rows.pop(window))

    def finish_bundle(self) -> Iterable[WindowedValue]:
        for window, rows in self._rows.items():
            yield WindowedValue(self._block(rows), late_moment(window), (window,))
        self._rows.clear()

    def _parts(self, pair: tuple[Any, ...]) -> tuple[tuple[Any, ...], float | None]:
        if not self._with_amounts:
            return pair, 0.0
        if not isinstance(pair, tuple) or len(pair) != 3:
            raise TypeError("PrivateTopK takes (user, item, amount) where amounts are added up, got an element of type "
                            f"{type(pair).__name__}")  # fmt: skip
        return pair[:2], _amount(pair[2])

    def _block(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        columns = zip(*rows, strict=True)
        return make_block(**{name: pa.array(c) for name, c in zip(self._names, columns, strict=True)})[0]


def late_moment(window: Any) -> Timestamp:  # noqa: ANN401 - a Beam window
    """A moment late in a window, but a millisecond before its last: a timer of that one may fire while elements with
    the same timestamp are still to come.
    """
    return max(
        window.max_timestamp() - Duration(micros=1000), window.start if hasattr(window, "start") else MIN_TIMESTAMP
    )


def _amount(value: Any) -> float | None:  # noqa: ANN401 - whatever a row holds
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise TypeError(f"PrivateTopK takes amounts that are numbers, got one of type {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the floats
        number = math.copysign(math.inf, value // abs(value))  # type: ignore[operator]
    return None if math.isnan(number) else number


def _labels(pair: tuple[Any, ...]) -> tuple[str, str] | None:
    try:
        user, item = pair
    except (TypeError, ValueError):
        raise TypeError(f"PrivateTopK takes (user, item) pairs, got an element of type {type(pair).__name__}") from None
    if user is None or item is None:
        return None
    for name, value in (("a user", user), ("an item", item)):
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise TypeError(f"PrivateTopK takes users and items that are str or int, got {name} of type "
                            f"{type(value).__name__}")  # fmt: skip
    return str(user), str(item)
