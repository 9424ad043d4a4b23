"""A Kafka topic as blocks, read by librdkafka in a splittable DoFn: on every runner, without Java."""

from __future__ import annotations

from dataclasses import dataclass, field

import apache_beam as beam
import pyarrow as pa

from private_topk.pipelines.identity import named, unasked
from private_topk.pipelines.sources.clock import Clock
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.kafka_partitions import Group, ReadPartitionsDoFn
from private_topk.pipelines.sources.kafka_topic import KafkaTopic
from private_topk.pipelines.sources.payloads import JsonPayload, Payload
from private_topk.pipelines.sources.source import horizon
from private_topk.runners import Launch
from private_topk.transforms.keys import ReleaseKey
from private_topk.transforms.refusal import Refusal
from private_topk.transforms.windows import Period

__all__ = ["Kafka"]


@dataclass(frozen=True)
class Kafka:
    """A topic, until the clock has passed the horizon.

    Positions are part of Beam's checkpoints: after a restart every message is read once more or not at all, as the
    checkpoint has it. Partitions are those at the launch. The clock is that of the partition that is farthest behind.

    Args:
        clock: "log": a message has arrived when the broker stamped it. "event": the rows' times close windows.
        start: "earliest" or "latest": where a partition is entered.
        readers: how many workers share the partitions.
    """

    topic: KafkaTopic
    columns: Columns = Columns(time="time")
    payload: Payload = JsonPayload()
    clock: str = "log"
    start: str = "earliest"
    readers: int = field(default=1, metadata=unasked("the clock waits for the slowest of them"))

    bounded, live = False, False

    def __post_init__(self) -> None:
        if self.readers < 1:
            raise Refusal("kafka_readers", f"must be at least 1, got {self.readers}")
        if self.start not in ("earliest", "latest"):
            raise Refusal("kafka_start", f"must be earliest or latest, got {self.start}")

    @property
    def place(self) -> str:
        return self.topic.place

    def check(self, period: Period | None) -> None:
        horizon(period)
        self.topic.partitions("input")

    def check_runner(self, launch: Launch) -> None:
        if self.readers > 1 and not launch.follows_slowest_reader:
            raise Refusal("kafka_readers", f"must be 1 on {launch.name}, which follows the clock of whichever reader "
                          "reported last instead of the slowest, and would close windows too early")  # fmt: skip

    def read(self, period: Period | None) -> beam.PTransform:
        clock, found = Clock.of(self.clock, horizon(period)), self.topic.partitions("input")
        groups = [tuple(found[number :: self.readers]) for number in range(min(self.readers, len(found)))]
        return _ReadGroups(groups, ReadPartitionsDoFn(self.topic, self.columns, self.payload, clock, self.start))

    def stored_bytes(self) -> int:
        return 0

    def identity(self, key: ReleaseKey) -> str:
        return named(self, key)

    def local_places(self) -> tuple[str, ...]:
        return ()


@beam.typehints.with_output_types(pa.RecordBatch)
class _ReadGroups(beam.PTransform):
    def __init__(self, groups: list[Group], fn: ReadPartitionsDoFn) -> None:
        super().__init__()
        self._groups, self._fn = groups, fn

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        return (
            pipeline
            | "Name the partitions" >> beam.Create(self._groups, reshuffle=False)
            | "Spread the partitions" >> beam.Reshuffle()
            | "Read the partitions" >> beam.ParDo(self._fn)
        )
