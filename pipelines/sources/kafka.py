"""A Kafka topic as blocks, read by librdkafka in a splittable DoFn: on every runner, without Java."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.sources.clock import Clock, now_of
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.payloads import Decoder, Payload

__all__ = ["KafkaTopic", "ReadKafka"]

_BATCH = 20_000
_TURN = 1.0
_WAIT = 0.2
_PAUSE = 0.5
_APART = 5.0  # seconds by which the clocks of broker and worker may differ, where an empty log is taken for up to date
_EVER = (1 << 63) - 1


@dataclass(frozen=True)
class KafkaTopic:
    """A topic and how to reach it.

    Args:
        options: of librdkafka, such as security.protocol; they may hold a password, so they are not shown.
    """

    servers: str
    topic: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def client(self, **more: Any) -> dict[str, Any]:  # noqa: ANN401
        return {"bootstrap.servers": self.servers, **dict(self.options), **more}

    def consumer(self) -> Any:  # noqa: ANN401 - the client is loaded when it is needed
        from confluent_kafka import Consumer

        return Consumer(self.client(**{
            "group.id": "private-topk",  # asked for by the client; positions are kept by Beam, not by the broker
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": 16384,
            "fetch.message.max.bytes": 4 << 20,
        }))  # fmt: skip

    def partitions(self) -> list[int]:
        """The partitions of the topic. Raises InputError if it cannot be reached or does not exist."""
        try:
            from confluent_kafka import KafkaException
        except ImportError:
            raise InputError("kafka:// needs the client: pip install 'private-topk[kafka]'") from None
        try:
            consumer = self.consumer()
            try:
                found = consumer.list_topics(self.topic, timeout=10).topics[self.topic]
            finally:
                consumer.close()
        except KafkaException as error:
            raise InputError(f"kafka://{self.servers} cannot be reached: {error.args[0].str()}") from None
        if found.error is not None or not found.partitions:
            raise InputError(f"kafka://{self.servers} has no topic {self.topic}: create it first")
        return sorted(found.partitions)


@beam.typehints.with_output_types(pa.RecordBatch)
class ReadKafka(beam.PTransform):
    """A topic as blocks with times, partition by partition, until the clock has passed the horizon.

    Positions are part of Beam's checkpoints: after a restart every message is read once more or not at all, as the
    checkpoint has it. Partitions are those at the launch.

    Args:
        start: "earliest" or "latest": where a partition is entered.
    """

    def __init__(self, topic: KafkaTopic, columns: Columns, payload: Payload, clock: Clock, start: str) -> None:
        super().__init__()
        self._partitions = topic.partitions()
        self._fn = _ReadPartitionDoFn(topic, columns, payload, clock, start)

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        return (
            pipeline
            | "Name the partitions" >> beam.Create(self._partitions, reshuffle=False)
            | "Spread the partitions" >> beam.Reshuffle()
            | "Read the partitions" >> beam.ParDo(self._fn)
        )


class _Offsets(OffsetRestrictionTracker):
    def is_bounded(self) -> bool:
        return False


class _ReadPartitionDoFn(beam.DoFn, RestrictionProvider):
    """Reads a partition for a second at a time, then gives the rest of it back to the runner."""

    def __init__(self, topic: KafkaTopic, columns: Columns, payload: Payload, clock: Clock, start: str) -> None:
        self._topic, self._columns, self._clock, self._start = topic, columns, clock, start
        self._decoder = Decoder(payload, columns)
        self._consumers: dict[int, Any] = {}
        self._places: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def initial_restriction(self, partition: int) -> OffsetRange:
        from confluent_kafka import TopicPartition

        consumer = self._topic.consumer()
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(self._topic.topic, partition), timeout=30)
        finally:
            consumer.close()
        return OffsetRange(high if self._start == "latest" else low, _EVER)

    def create_tracker(self, restriction: OffsetRange) -> _Offsets:
        return _Offsets(restriction)

    def restriction_size(self, partition: int, restriction: OffsetRange) -> int:
        return 1

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        partition: int,
        tracker: Any = beam.DoFn.RestrictionParam(),  # noqa: ANN401, B008 - Beam's convention
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),  # noqa: ANN401, B008
    ) -> Iterator[TimestampedValue]:
        position = tracker.current_restriction().start
        deadline = time.monotonic() + _TURN
        while not self._clock.is_over(estimator):
            asked = time.time()
            messages = self._read(partition, position)
            if messages:
                messages, whole = _claim(tracker, messages)
                block = self._decoder.block([message.value() for message in messages])
                if len(block):
                    yield TimestampedValue(block, now_of(estimator))
                if not whole:
                    return
                position = messages[-1].offset() + 1
                self._places[partition] = position
                self._clock.advance(estimator, self._reached(messages, block, asked))
            elif not self._clock.by_rows and self._is_up_to_date(partition, position):
                self._clock.advance(estimator, int((asked - _APART) * 1e6))
            if not messages or time.monotonic() > deadline:
                tracker.defer_remainder(Duration(0 if messages else _PAUSE))
                return
        tracker.try_claim(_EVER - 1)

    def teardown(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()

    def _read(self, partition: int, position: int) -> list[Any]:
        """Messages from a position on; none if there are none at present. Raises KafkaException."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        if partition not in self._consumers:
            self._consumers[partition] = self._topic.consumer()
        consumer = self._consumers[partition]
        if self._places.get(partition) != position:
            consumer.assign([TopicPartition(self._topic.topic, partition, position)])
            self._places[partition] = self._ends[partition] = position
        found = consumer.consume(_BATCH, _WAIT)
        for message in found:
            if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
                self._ends[partition] = message.offset()
            elif message.error():
                raise KafkaException(message.error())
        return [message for message in found if not message.error()]

    def _is_up_to_date(self, partition: int, position: int) -> bool:
        """Whether the broker says that nothing follows; not if it says nothing."""
        from confluent_kafka import KafkaException, TopicPartition

        place = TopicPartition(self._topic.topic, partition)
        try:
            return self._consumers[partition].get_watermark_offsets(place, timeout=5)[1] <= max(
                position, self._ends[partition]
            )
        except KafkaException:
            return False

    def _reached(self, messages: list[Any], block: pa.RecordBatch, asked: float) -> int | None:
        """The clock after some messages: the rows' own times, or when the last of them arrived."""
        if self._clock.by_rows:
            return pc.max(block["time"]).as_py()
        return min(messages[-1].timestamp()[1] * 1000, int(asked * 1e6))


def _claim(tracker: Any, messages: list[Any]) -> tuple[list[Any], bool]:  # noqa: ANN401
    """The messages that are still this worker's, and whether all are: a runner may have split the rest off."""
    if tracker.try_claim(messages[-1].offset()):
        return messages, True
    stop = tracker.current_restriction().stop
    return [message for message in messages if message.offset() < stop], False
