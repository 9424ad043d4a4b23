"""A Pub/Sub subscription as blocks. Needs `pip install 'private-topk[gcp]'`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.payloads import Decoder, Payload

__all__ = ["GatherMessages", "ReadPubSub"]

_MESSAGES = 50_000


@beam.typehints.with_output_types(pa.RecordBatch)
class ReadPubSub(beam.PTransform):
    """A subscription as blocks with times. Its clock is Pub/Sub's own, of publication."""

    def __init__(self, subscription: str, columns: Columns, payload: Payload) -> None:
        super().__init__()
        self._subscription, self._columns, self._payload = subscription, columns, payload

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        from apache_beam.io.gcp.pubsub import ReadFromPubSub

        messages = pipeline | "Receive" >> ReadFromPubSub(subscription=self._subscription)
        return messages | GatherMessages(self._columns, self._payload)


@beam.typehints.with_output_types(pa.RecordBatch)
class GatherMessages(beam.PTransform):
    """Single messages (bytes, in the global window) to blocks, as many as a bundle holds.

    A message has arrived at its element's timestamp: that of publication, or of the broker's log.
    """

    def __init__(self, columns: Columns, payload: Payload) -> None:
        super().__init__()
        self._decoder = Decoder(payload, columns)

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        return messages | "Gather messages into blocks" >> beam.ParDo(_GatherDoFn(self._decoder))


class _GatherDoFn(beam.DoFn):
    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def start_bundle(self) -> None:
        self._messages: list[bytes] = []
        self._arrived: list[int] = []

    def process(self, message: bytes, time: Any = beam.DoFn.TimestampParam) -> Iterator[pa.RecordBatch]:  # noqa: ANN401, B008
        self._messages.append(message)
        self._arrived.append(time.micros)
        if len(self._messages) >= _MESSAGES:
            yield from self._blocks()

    def finish_bundle(self) -> Iterable[WindowedValue]:
        first = Timestamp(micros=min(self._arrived, default=0))
        for block in self._blocks():
            yield WindowedValue(block, first, (GlobalWindow(),))

    def _blocks(self) -> Iterator[pa.RecordBatch]:
        messages, arrived = self._messages, self._arrived
        self._messages, self._arrived = [], []
        if messages:
            block = self._decoder.block(messages, arrived)
            if len(block):
                yield block
