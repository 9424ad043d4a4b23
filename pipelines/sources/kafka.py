"""A Kafka topic as an unbounded source, read by librdkafka in a splittable DoFn: on every runner, without Java.

Arrival times must be the same when the log is read again. So a message arrives at the latest timestamp that the broker
has given in its partition up to it: in order, even if the broker's clock is set back. The clock of an idle log follows
the wall clock, far enough behind that later messages have later timestamps. If one does not, the report fails, since a
repetition would count other rows.

A log may lose messages: to retention, to an operator, to compaction, or as a whole where the topic is deleted and
created again. Two rules make that known:

- A launch looks up the first offset of every partition, which is where reading starts. If messages were deleted before
  it, the broker's own stamps must show that none of them can be of the horizon (`check_start`).
- What was read is on record, and what is read next must join it. For every partition and every closing of a window, the
  rows of the horizon that came before it are on record, sealed, before that window closes. Wherever reading starts
  again, the same rows must come (`GroupReader.join`). Offsets do not show that: transactions leave gaps as compaction
  does.

The topic's id, its partitions and its cleanup policy are looked up before windows close.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import apache_beam as beam

from private_topk.pipelines.release.identity import identity_of, not_in_fingerprint
from private_topk.pipelines.release.input_record import InputRecord
from private_topk.pipelines.sources.clock import Clock, moment_of
from private_topk.pipelines.sources.columns import Columns, Rows, Types
from private_topk.pipelines.sources.kafka_log import (
    Extent,
    Log,
    arrivals,
    check_repeatable,
    check_same,
    check_stamped,
    check_start,
    extent_of,
    first_messages,
)
from private_topk.pipelines.sources.kafka_reader import ReadPartitionsDoFn
from private_topk.pipelines.sources.kafka_topic import BATCH, PATIENCE, WAIT, KafkaTopic, patiently
from private_topk.pipelines.sources.payloads import JsonPayload, Payload
from private_topk.pipelines.sources.source import BlockReader, Source, horizon
from private_topk.runners import Launch, say
from private_topk.transforms.errors import InvalidArgument, Unreachable, of_field
from private_topk.transforms.windows import Period

# Seconds.
_APART = 5.0  # by which the clocks of broker and worker may differ
_SLOW = 5.0  # between two lines that tell how much is read


@dataclass(frozen=True)
class Kafka(Source):
    """A topic, until the clock has passed the horizon.

    Positions are part of Beam's checkpoints: after a restart reading goes on from the checkpoint. Partitions are those
    at the launch. The clock is that of the partition that is farthest behind.

    Args:
        clock: "log": a message arrives when the broker stamps it. "event": the rows' times close windows.
        start: where reading starts: "earliest", or a time in ISO 8601, for the first message stamped since.
        readers: how many workers share the partitions.
    """

    identity_tag: ClassVar[str] = "kafka"

    topic: KafkaTopic
    columns: Columns = Columns(time="time")
    payload: Payload = JsonPayload()
    clock: str = "log"
    start: str = "earliest"
    readers: int = field(default=1, metadata=not_in_fingerprint("the clock waits for the slowest of them"))

    bounded = False

    def __post_init__(self) -> None:
        if self.readers < 1:
            raise InvalidArgument("kafka_readers", f"must be at least 1, got {self.readers}")
        if self.start != "earliest":
            moment_of(self.start)

    @property
    def uri(self) -> str:  # type: ignore[override] # set by what it is made of
        return self.topic.uri

    @property
    def types(self) -> Sequence[Types]:
        return (self.payload.types(),)

    def check(self, period: Period | None) -> None:
        start, facts = int(horizon(period).starts[0]) // 1000, self.topic.facts("input")
        with of_field("input"):
            check_repeatable(self.topic, facts, self.clock)
        if not self.topic_id:
            say(
                f"{self.uri} has no id that its broker tells: if it is deleted and created again, that is noticed only "
                "where a window has closed since"
            )
        if not facts.cleanup:
            say(f"{self.uri} does not tell its cleanup.policy: whether messages are compacted away is not known")
        if self._since is not None and self._since > start:
            say(f"--kafka-start {self.start}: windows that began before it are published without the rows before it")
        if self.clock == "log" and horizon(period).closing[-1] < time.time() * 1e6:
            say(
                "the horizon has passed: only rows that the broker had stamped by then are on time, and a topic that "
                "was filled later needs --clock event"
            )
        with contextlib.closing(self.topic.observer()) as observer, of_field("input"):
            check_start(observer, self.topic, self._extents, self._since, start)
            if self.clock == "log":
                begin = {part: extent.begin for part, extent in self._extents.items()}
                firsts = first_messages(observer, self.topic, begin)
                check_stamped(self.topic, [message for message in firsts.values() if message is not None], "input")

    def check_runner(self, launch: Launch) -> None:
        if self.readers > 1 and not launch.follows_slowest_reader:
            raise InvalidArgument(
                "kafka_readers",
                f"must be 1 on {launch.name}, which follows the clock of whichever reader "
                "reported last instead of the slowest, and would close windows too early",
            )

    @cached_property
    def topic_id(self) -> str:
        """The topic's id, looked up once; empty where the broker gives none. Raises InvalidArgument of `input`."""
        return patiently(self.topic, self.topic.id)

    def asked(self) -> Any:  # noqa: ANN401 - a value with an identity
        return replace(self, start="earliest")  # `check_same` compares its moment, and not the words for it

    def identified(self) -> Any:  # noqa: ANN401 - a value with an identity
        return {"source": identity_of(self), "id": self.topic_id} if self.topic_id else self

    def check_record(self, record: InputRecord) -> None:
        check_same(self.topic, record.read(), self.topic_id, self._since, len(self._extents))

    def read(self, period: Period | None) -> BlockReader:
        partitions, reading_groups = tuple(self._extents), self.group_reader(period)
        groups = [partitions[number :: self.readers] for number in range(min(self.readers, len(partitions)))]

        def read(pipeline: beam.Pipeline, reading: BlockReader) -> beam.PCollection:
            reading_groups.record = reading.record
            return (
                pipeline
                | "Name the partitions" >> beam.Create(groups, reshuffle=False)
                | "Spread the partitions" >> beam.Reshuffle()
                | "Read the partitions" >> beam.ParDo(reading_groups)
            )

        return BlockReader(read, [group[0] for group in groups])

    def group_reader(self, period: Period | None) -> ReadPartitionsDoFn:
        clock, facts = Clock(self.clock, horizon(period)), self.topic.facts("input")
        begin = {part: extent.begin for part, extent in self._extents.items()}
        # A lagging follower is dropped at the broker's second check, half of that time after the first.
        behind = _APART + (1.5 * facts.lag if facts.replicas > 1 else 0)
        log = Log(self.topic, begin, behind, self._since, self.topic_id)
        return ReadPartitionsDoFn(log, self.columns, self.payload, clock)

    def rows(self, period: Period | None) -> Iterator[Rows]:
        """The rows of the messages that were there at the launch, as a run would read them. Late ones may be anywhere
        behind the horizon, so all are read.

        Raises InvalidArgument if the broker stops answering, or has not stamped a message by whose arrival it counts.
        """
        from confluent_kafka import KafkaError, TopicPartition

        columns, topic, extents = self.columns.within(period), self.topic, self._extents
        reached = {part: extent.begin for part, extent in extents.items()}
        clocks, total = dict.fromkeys(extents, 0), sum(extent.high - extent.begin for extent in extents.values())
        with contextlib.closing(topic.consumer()) as consumer:
            consumer.assign([TopicPartition(topic.topic, part, begin) for part, begin in reached.items()])
            deadline, tell = time.monotonic() + PATIENCE, time.monotonic() + _SLOW
            while left := sum(max(extents[part].high - offset, 0) for part, offset in reached.items()):
                batches = defaultdict(list)
                for message in consumer.consume(BATCH, WAIT):
                    part, code = message.partition(), message.error() and message.error().code()
                    if code is None:
                        batches[part].append(message)
                        reached[part] = message.offset() + 1
                    elif code == KafkaError._PARTITION_EOF:  # an open transaction hides the rest
                        reached[part] = extents[part].high
                    deadline = time.monotonic() + PATIENCE if code in (None, KafkaError._PARTITION_EOF) else deadline
                read = [TopicPartition(topic.topic, part) for part in batches if reached[part] >= extents[part].high]
                consumer.pause(read)  # a producer may go on for ever
                for part, messages in batches.items():
                    there = [message for message in messages if message.offset() < extents[part].high]
                    if not there:
                        continue
                    rows = self.payload.rows([message.value() or b"" for message in there], columns)
                    if self.clock == "log":
                        arrived = arrivals(topic, there, clocks[part], "input")
                        rows, clocks[part] = rows._replace(arrived=arrived), int(arrived[-1])
                    yield rows
                if time.monotonic() > deadline:
                    raise Unreachable("input", f"{self.uri} does not answer")
                if time.monotonic() > tell:
                    say(f"reading the messages of {self.uri} that were there at the start: {1 - left / total:.0%}")
                    tell = time.monotonic() + _SLOW

    @cached_property
    def _extents(self) -> dict[int, Extent]:
        """The log of every partition, looked up once: what is checked is what is read, whatever is deleted meanwhile.

        Raises InvalidArgument of `input`.
        """
        topic, since = self.topic, self._since
        with contextlib.closing(topic.observer()) as observer:
            return {part: extent_of(observer, topic, part, since) for part in topic.partitions("input")}

    @property
    def _since(self) -> int | None:
        return None if self.start == "earliest" else moment_of(self.start)
