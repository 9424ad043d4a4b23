"""A Kafka topic as blocks, read by librdkafka in a splittable DoFn: on every runner, without Java."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import apache_beam as beam
import pyarrow as pa

from private_topk.pipelines.identity import named, unasked
from private_topk.pipelines.sources.clock import Clock, moment_of
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.kafka_partitions import Log, ReadPartitionsDoFn
from private_topk.pipelines.sources.kafka_reader import Group, first_offset
from private_topk.pipelines.sources.kafka_topic import KafkaTopic, TopicFacts
from private_topk.pipelines.sources.payloads import JsonPayload, Payload
from private_topk.pipelines.sources.source import BlockReader, horizon
from private_topk.runners import Launch
from private_topk.transforms.errors import Refusal
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows import Period

__all__ = ["Kafka", "check_repeatable"]

_APART = 5.0  # seconds by which the clocks of broker and worker may differ


@dataclass(frozen=True)
class Kafka:
    """A topic, until the clock has passed the horizon.

    Positions are part of Beam's checkpoints: after a restart every message is read once more or not at all, as the
    checkpoint has it. Partitions are those at the launch. The clock is that of the partition that is farthest behind.

    Args:
        clock: "log": a message has arrived when the broker stamped it. "event": the rows' times close windows.
        start: where a partition is entered: "earliest", or a time in ISO 8601, at the first message stamped since.
        readers: how many workers share the partitions.
    """

    identity_tag: ClassVar[str] = "kafka"

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
        if self.start != "earliest":
            moment_of(self.start, "kafka_start")

    @property
    def place(self) -> str:
        return self.topic.place

    def check(self, period: Period | None) -> None:
        start, facts = int(horizon(period).starts[0]) // 1000, self.topic.facts("input")
        check_repeatable(self.topic, facts, self.clock)
        observer = self.topic.observer()
        try:
            for partition in facts.partitions:
                first_offset(observer, self.topic, partition, self._since, start)
        finally:
            observer.close()

    def check_runner(self, launch: Launch) -> None:
        if self.readers > 1 and not launch.follows_slowest_reader:
            raise Refusal("kafka_readers", f"must be 1 on {launch.name}, which follows the clock of whichever reader "
                          "reported last instead of the slowest, and would close windows too early")  # fmt: skip

    def read(self, period: Period | None) -> BlockReader:
        clock, facts = Clock(self.clock, horizon(period)), self.topic.facts("input")
        found = facts.partitions
        groups = [found[number :: self.readers] for number in range(min(self.readers, len(found)))]
        # A follower that lags is let go at the second look, half of that time apart.
        behind = _APART + (1.5 * facts.lag if facts.replicas > 1 else 0)
        log = Log(self.topic, self._since, len(found), behind)
        return _ReadGroups(groups, ReadPartitionsDoFn(log, self.columns, self.payload, clock))

    @property
    def _since(self) -> int | None:
        return None if self.start == "earliest" else moment_of(self.start, "kafka_start")

    def rows(self, period: Period | None) -> None:
        return None

    def stored_bytes(self) -> int:
        return 0

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        return named(self, key)

    def local_places(self) -> tuple[str, ...]:
        return ()


def check_repeatable(topic: KafkaTopic, facts: TopicFacts, clock: str) -> None:
    """Raise Refusal unless whoever reads the topic anew finds the same messages, arrived at the same times."""
    if "compact" in facts.cleanup:
        raise Refusal("input", f"{topic.place} is compacted: when a message goes nobody knows, and the same release "
                      "would be another answer when repeated", "read a topic with cleanup.policy=delete")  # fmt: skip
    if clock == "log" and facts.stamps == "CreateTime":
        raise Refusal("input", f"{topic.place} is stamped by who sends: a single message with a made-up time would "
                      "close windows for everybody", "set message.timestamp.type=LogAppendTime on the topic, or give "
                      "{clock} event for a log in order")  # fmt: skip


@beam.typehints.with_output_types(pa.RecordBatch)
class _ReadGroups(BlockReader):
    def __init__(self, groups: list[Group], fn: ReadPartitionsDoFn) -> None:
        super().__init__()
        self._groups, self._fn = groups, fn
        self.readers = [group[0] for group in groups]

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        return (
            pipeline
            | "Name the partitions" >> beam.Create(self._groups, reshuffle=False)
            | "Spread the partitions" >> beam.Reshuffle()
            | "Read the partitions" >> beam.ParDo(self._fn)
        )
