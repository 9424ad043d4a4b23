"""A Kafka topic through Beam's own transform, which is written in Java: for Flink and Dataflow with Java workers."""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa

from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.kafka import KafkaTopic
from private_topk.pipelines.sources.payloads import Payload
from private_topk.pipelines.sources.pubsub import GatherMessages

__all__ = ["ReadKafkaByBeam"]


@beam.typehints.with_output_types(pa.RecordBatch)
class ReadKafkaByBeam(beam.PTransform):
    """A topic as blocks with times. Its clock is that of the broker: the topic must stamp records as they arrive.

    Args:
        expansion_service: HOST:PORT of one that is up; without it Beam starts its own, which needs Java and Maven's
            repository.
    """

    def __init__(
        self, topic: KafkaTopic, columns: Columns, payload: Payload, start: str, expansion_service: str | None
    ) -> None:
        super().__init__()
        self._topic, self._columns, self._payload = topic, columns, payload
        self._start, self._service = start, expansion_service

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        from apache_beam.io.kafka import ReadFromKafka

        config = {**self._topic.client(), "auto.offset.reset": self._start, "isolation.level": "read_committed"}
        read = ReadFromKafka(
            config,
            [self._topic.topic],
            timestamp_policy=ReadFromKafka.log_append_time,
            expansion_service=self._service,
        )
        records = pipeline | "Receive" >> read
        messages = records | "Values" >> beam.Map(lambda record: record[1] or b"").with_output_types(bytes)
        return messages | GatherMessages(self._columns, self._payload)
