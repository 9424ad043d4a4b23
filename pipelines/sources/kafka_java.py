"""A Kafka topic through Beam's own transform, which is written in Java: for Flink and Dataflow with Java workers."""

from __future__ import annotations

from dataclasses import dataclass, field

import apache_beam as beam
import pyarrow as pa

from private_topk.pipelines.identity import named, unasked
from private_topk.pipelines.sources.clock import moment_of
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.kafka import check_repeatable
from private_topk.pipelines.sources.kafka_topic import KafkaTopic
from private_topk.pipelines.sources.payloads import JsonPayload, Payload
from private_topk.pipelines.sources.pubsub import GatherMessages
from private_topk.pipelines.sources.source import BlockReader, horizon
from private_topk.runners import Launch
from private_topk.transforms.keys import ReleaseKey
from private_topk.transforms.windows import Period

__all__ = ["KafkaByBeam"]


@dataclass(frozen=True)
class KafkaByBeam:
    """A topic. Its clock is that of the broker: the topic must stamp records as they arrive.

    Args:
        start: "earliest", or a time in ISO 8601.
        expansion_service: HOST:PORT of one that is up; without it Beam starts its own, which needs Java and Maven's
            repository.
    """

    topic: KafkaTopic
    columns: Columns = Columns(time="time")
    payload: Payload = JsonPayload()
    start: str = "earliest"
    expansion_service: str | None = field(default=None, metadata=unasked("it makes the transform and sees no row"))

    bounded, live = False, False

    def __post_init__(self) -> None:
        if self.start != "earliest":
            moment_of(self.start, "kafka_start")

    @property
    def place(self) -> str:
        return self.topic.place

    def check(self, period: Period | None) -> None:
        horizon(period)
        check_repeatable(self.topic, self.topic.facts("input"), "log")

    def check_runner(self, launch: Launch) -> None:
        """Beam spreads the partitions over readers of its own."""

    def read(self, period: Period | None) -> BlockReader:
        return _ReadByBeam(self)

    def rows(self, period: Period | None) -> None:
        return None

    def stored_bytes(self) -> int:
        return 0

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        return named(self, key)

    def local_places(self) -> tuple[str, ...]:
        return ()


@beam.typehints.with_output_types(pa.RecordBatch)
class _ReadByBeam(BlockReader):
    def __init__(self, source: KafkaByBeam) -> None:
        super().__init__()
        self._source = source

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        from apache_beam.io.kafka import ReadFromKafka

        source = self._source
        config = source.topic.client(**{"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
        read = ReadFromKafka(
            config,
            [source.topic.topic],
            start_read_time=None if source.start == "earliest" else moment_of(source.start, "kafka_start"),
            timestamp_policy=ReadFromKafka.log_append_time,
            expansion_service=source.expansion_service,
        )
        records = pipeline | "Receive" >> read
        messages = records | "Values" >> beam.Map(lambda record: record[1] or b"").with_output_types(bytes)
        return messages | GatherMessages(source.columns, source.payload)
