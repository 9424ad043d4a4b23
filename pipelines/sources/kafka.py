"""A Kafka topic as blocks, read by librdkafka in a splittable DoFn: on every runner, without Java."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import pyarrow as pa

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.sources.clock import Clock
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.kafka_partitions import ReadPartitionsDoFn
from private_topk.pipelines.sources.payloads import Payload

__all__ = ["KafkaTopic", "ReadKafka"]


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
                found = consumer.list_topics(self.topic, timeout=5).topics[self.topic]
            finally:
                consumer.close()
        except KafkaException as error:
            raise InputError(f"kafka://{self.servers} cannot be reached: {error.args[0].str()}") from None
        if found.error is not None or not found.partitions:
            raise InputError(f"kafka://{self.servers} has no topic {self.topic}: create it first")
        return sorted(found.partitions)


@beam.typehints.with_output_types(pa.RecordBatch)
class ReadKafka(beam.PTransform):
    """A topic as blocks with times, until the clock has passed the horizon.

    Positions are part of Beam's checkpoints: after a restart every message is read once more or not at all, as the
    checkpoint has it. Partitions are those at the launch. The clock is that of the partition that is farthest behind.

    Args:
        start: "earliest" or "latest": where a partition is entered.
        readers: how many workers share the partitions.
    """

    def __init__(
        self, topic: KafkaTopic, columns: Columns, payload: Payload, clock: Clock, start: str, readers: int = 1
    ) -> None:
        super().__init__()
        found = topic.partitions()
        self._groups = [tuple(found[n::readers]) for n in range(min(readers, len(found)))]
        self._fn = ReadPartitionsDoFn(topic, columns, payload, clock, start)

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        return (
            pipeline
            | "Name the partitions" >> beam.Create(self._groups, reshuffle=False)
            | "Spread the partitions" >> beam.Reshuffle()
            | "Read the partitions" >> beam.ParDo(self._fn)
        )
