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
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration

from private_topk.pipelines.release.identity import identity_of, not_in_fingerprint
from private_topk.pipelines.release.input_record import Entry, InputRecord
from private_topk.pipelines.sources.clock import Clock, StreamTracker, moment_of, now_of
from private_topk.pipelines.sources.columns import Columns, Rows
from private_topk.pipelines.sources.payloads import Decoder, JsonPayload, Payload
from private_topk.pipelines.sources.source import BlockReader, Source, horizon
from private_topk.runners import Launch, Line, say
from private_topk.transforms.completeness import BlockChecksums, SentChecksums
from private_topk.transforms.errors import (
    ANOTHER_RELEASE,
    InvalidArgument,
    Unreachable,
    crosses,
    install_extra,
    of_another_release,
    of_field,
    verbatim,
)
from private_topk.transforms.windows import Period

_T = TypeVar("_T")
Group = tuple[int, ...]
Sums = tuple[int, int]
"""How many rows of the horizon a partition has given, and the sum of their times, modulo 2**63."""

_ADDRESS = re.compile(r"kafka://([\w.\-\[\]:]+:\d+(?:,[\w.\-\[\]:]+:\d+)*)/([\w.\-]{1,249})")
_TOOK = re.compile(r" \(after \d+ms in state \w+\)$")
_OURS = {
    "group.id": "private-topk",  # required by the client; positions are kept by Beam, not by the broker
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": 16384,
    "fetch.message.max.bytes": 4 << 20,
}

_SEVERE = 2
# Seconds.
_ANSWERED = 5.0  # within which a broker answers a request
_SETTLED = 30.0  # within which another broker has taken over a partition
_HEARD, _PAUSE = 1.0, 0.1  # within which a broker learns of a new topic, and between two tries
_PATIENCE = 30.0  # for which a reader tolerates errors
_TURN = 1.0  # of reading, after which the runner may take a checkpoint
_STEADY = 10.0  # of answers, after which a topic is back: a client tries a lost connection again within them
_QUIET = 0.5  # until an idle log is polled again
_HELD = 60.0  # for which a partition may hold windows before that is told
_WAIT = 0.2  # for messages
_APART = 5.0  # by which the clocks of broker and worker may differ
_LAG = 30.0  # for which a broker may hold a message back, by its default
_KEPT = 60.0  # for which at least every log keeps its messages
_BATCH = 20_000  # messages
_MASK = (1 << 63) - 1


class TopicFacts(NamedTuple):
    """The facts that decide whether a topic can be read twice with the same result.

    Args:
        partitions: their numbers.
        replicas: the largest number of replicas of a partition.
        stamps: LogAppendTime or CreateTime; empty if the broker does not tell, like the next one.
        cleanup: delete, compact or both.
        lag: for how long a broker may hold a message back until all replicas have it, seconds.
    """

    partitions: tuple[int, ...]
    replicas: int
    stamps: str
    cleanup: str
    lag: float


@dataclass(frozen=True)
class KafkaTopic:
    """A topic and how to reach it.

    Args:
        options: of librdkafka, such as security.protocol; they may hold a password, so they are not shown. The value
            env:NAME is read from the environment where the client is made, so that no job holds it.
    """

    identity_tag: ClassVar[str] = "kafka-topic"

    servers: str
    topic: str
    options: tuple[tuple[str, str], ...] = field(
        default=(),
        repr=False,
        metadata=not_in_fingerprint("how the broker is reached; what decides which rows come is set here"),
    )

    @classmethod
    def of(cls, uri: str, options: Sequence[tuple[str, str]], name: str) -> KafkaTopic:
        """The topic of an address. Raises InvalidArgument of the field `name` or of `kafka_config`."""
        match = _ADDRESS.fullmatch(uri)
        if not match:
            rule = f"must be kafka://HOST:PORT/TOPIC, with more servers after commas, got {verbatim(uri)}"
            raise InvalidArgument(name, rule)
        for option, _ in options:
            if option in _OURS or option in ("bootstrap.servers", "metadata.broker.list"):
                raise InvalidArgument("kafka_config", f"must leave {verbatim(option)} alone, which says what is read")
        return cls(match[1], match[2], tuple(options))

    @property
    def uri(self) -> str:
        return f"kafka://{self.servers}/{self.topic}"

    def client(self, **more: Any) -> dict[str, Any]:  # noqa: ANN401
        quiet = {"log_level": _SEVERE}  # errors are reported once, by us
        options = {name: _from_environment(name, value) for name, value in self.options}
        return {**quiet, **options, "bootstrap.servers": self.servers, **more}

    def consumer(self, **more: Any) -> Any:  # noqa: ANN401 - the client is loaded when it is needed
        """A consumer of committed messages, which reports the ends of partitions."""
        from confluent_kafka import Consumer

        return Consumer(self.client(**{**_OURS, **more}))

    def observer(self) -> Any:  # noqa: ANN401
        """A consumer of all messages, those of open transactions too, for the true end of a log."""
        return self.consumer(**{"isolation.level": "read_uncommitted"})

    def partitions(self, name: str) -> list[int]:
        """The partitions of the topic.

        Raises InvalidArgument of the field `name` if it does not exist, and Unreachable if no broker answers.
        """
        return sorted(self._metadata(name).partitions)

    def facts(self, name: str) -> TopicFacts:
        """The facts of the topic, from the broker. Raises InvalidArgument of the field `name`."""
        partitions = self._metadata(name).partitions
        topic, brokers = self.settings_of("topic", self.topic), partitions[min(partitions)].replicas
        broker = self.settings_of("broker", str(brokers[0])) if brokers else {}
        return TopicFacts(
            tuple(sorted(partitions)),
            max(len(partition.replicas) for partition in partitions.values()),
            topic.get("message.timestamp.type", ""),
            topic.get("cleanup.policy", ""),
            float(broker.get("replica.lag.time.max.ms") or 1000 * _LAG) / 1000,
        )

    def id(self) -> str:
        """The id that the topic was given when it was created; empty where the broker gives none.

        Raises:
            KafkaException: no broker answers, or the topic does not exist.
        """
        from confluent_kafka import TopicCollection
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(self.client())  # kept until the answer has come
        asked = admin.describe_topics(TopicCollection([self.topic]), request_timeout=_ANSWERED)
        found = asked[self.topic].result().topic_id
        none = found is None or not (found.get_most_significant_bits() or found.get_least_significant_bits())
        return "" if none else str(found)

    def _metadata(self, name: str) -> Any:  # noqa: ANN401
        try:
            from confluent_kafka import KafkaError, KafkaException
        except ImportError:
            raise InvalidArgument(name, "kafka:// needs its client", install_extra("kafka")) from None
        heard: list[Any] = []
        try:
            consumer = self.consumer(error_cb=heard.append)
        except InvalidArgument:
            raise
        except (KafkaException, TypeError, ValueError) as error:
            rule = f"is refused by the client of kafka://{self.servers}: {verbatim(_reason(error.args[0]))}"
            raise InvalidArgument("kafka_config", rule) from None
        try:
            metadata = self._described(consumer)
        except KafkaException as error:
            consumer.poll(0)  # hands over what was heard: the request itself only says that it failed
            causes = [cause for cause in heard if cause.code() != KafkaError._ALL_BROKERS_DOWN]
            rule = f"kafka://{self.servers} cannot be reached: {verbatim(_reason([error.args[0], *causes][-1]))}"
            raise Unreachable(
                name, rule, "check the address, and in {kafka_config} security.protocol and what goes with it"
            ) from None
        finally:
            consumer.close()
        if metadata.error is not None and metadata.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            rule = f"kafka://{self.servers} does not let this client see the topic {self.topic}"
            raise InvalidArgument(name, rule, "it needs the rights Describe, DescribeConfigs and Read")
        if metadata.error is not None or not metadata.partitions:
            raise InvalidArgument(name, f"kafka://{self.servers} has no topic {self.topic}: create it first")
        return metadata

    def _described(self, consumer: Any) -> Any:  # noqa: ANN401
        """The metadata of the topic, with retries: a broker learns of a new topic a little after the controller."""
        deadline = time.monotonic() + _HEARD
        while True:
            metadata = consumer.list_topics(self.topic, timeout=_ANSWERED).topics[self.topic]
            if metadata.partitions and metadata.error is None or time.monotonic() > deadline:
                return metadata
            time.sleep(_PAUSE)

    def settings_of(self, kind: str, name: str) -> dict[str, str]:
        """Settings of a topic or broker; none if the broker does not let this client read them."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, ConfigResource

        resource = ConfigResource(ConfigResource.Type[kind.upper()], name)
        admin = AdminClient(self.client())
        try:
            entries = admin.describe_configs([resource])[resource].result(_ANSWERED)
        except (KafkaException, TimeoutError):
            return {}
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}


def _from_environment(option: str, value: str) -> str:
    """The value of an option, or of the environment where it is env:NAME. Raises InvalidArgument if that is not set."""
    kind, _, name = value.partition(":")
    if kind != "env":
        return value
    if name not in os.environ:
        rule = f"{verbatim(option)} is env:{verbatim(name)}, which is not set"
        raise InvalidArgument("kafka_config", rule, "set it here, and where the workers run")
    return os.environ[name]


def _reason(error: Any) -> str:  # noqa: ANN401 - the client's own, or a text
    """What an error of the client says, without the time that it took."""
    return _TOOK.sub("", error if isinstance(error, str) else error.str())


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
            moment_of(self.start, "kafka_start")

    @property
    def uri(self) -> str:  # type: ignore[override] # set by what it is made of
        return self.topic.uri

    @property
    def integer_items(self) -> bool:
        return self.columns.integers(self.payload.has_integers)

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
                _check_stamped(self.topic, [message for message in firsts.values() if message is not None], "input")

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
        """The rows of the messages that are there by now, as a run would read them.

        Raises InvalidArgument if the broker stops answering.
        """
        from confluent_kafka import KafkaError, TopicPartition

        columns, topic, waiting = self.columns.within(period), self.topic, set(self._extents)
        with contextlib.closing(topic.consumer()) as consumer:
            consumer.assign([TopicPartition(topic.topic, part, self._extents[part].begin) for part in waiting])
            deadline = time.monotonic() + _PATIENCE
            while waiting:
                found = consumer.consume(_BATCH, _WAIT)
                values = [message.value() or b"" for message in found if not message.error()]
                ended = [m.partition() for m in found if m.error() and m.error().code() == KafkaError._PARTITION_EOF]
                waiting.difference_update(ended)
                if values:
                    yield self.payload.rows(values, columns)
                if values or ended:
                    deadline = time.monotonic() + _PATIENCE
                elif time.monotonic() > deadline:
                    raise Unreachable("input", f"{self.uri} does not answer")

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
        return None if self.start == "earliest" else moment_of(self.start, "kafka_start")


def check_repeatable(topic: KafkaTopic, facts: TopicFacts, clock: str) -> None:
    """Raise InvalidArgument unless reading the topic again gives the same messages with the same arrival times."""
    check_not_compacted(topic, facts.cleanup)
    if clock == "log" and facts.stamps == "CreateTime":
        raise InvalidArgument(
            "",
            f"{topic.uri} is stamped by who sends: a single message with a made-up time would "
            "close windows for everybody",
            "set message.timestamp.type=LogAppendTime on the topic, or give {clock} event for a log in order",
        )


def check_not_compacted(topic: KafkaTopic, cleanup: str) -> None:
    """Raise InvalidArgument if messages of the topic may go one by one, by its cleanup policy."""
    if "compact" in cleanup:
        raise InvalidArgument(
            "",
            f"{topic.uri} is compacted: when a message goes nobody knows, and the same release "
            "would be another answer when repeated",
            "read a topic with cleanup.policy=delete",
        )


def _check_stamped(topic: KafkaTopic, messages: Iterable[Any], field: str = "") -> None:
    """Raise InvalidArgument unless the broker has stamped all of some messages."""
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

    refusal = InvalidArgument if field else of_another_release  # in the midst of a run: either remedy reads other rows
    if any(message.timestamp()[0] != TIMESTAMP_LOG_APPEND_TIME for message in messages):
        raise refusal(
            field,
            f"{topic.uri} holds messages that were stamped by who sent them",
            "set message.timestamp.type=LogAppendTime and enter it after that with {kafka_start}, or "
            "give {clock} event",
        )


class Positions(NamedTuple):
    """How far a group of partitions has been read: the restriction, and the position claimed with a batch of messages.

    Args:
        offsets: the next offset of every partition.
        stamped: the latest timestamp of every partition, or the latest time of a row by the clock "event"; like the
            next one in microseconds since 1970 UTC, None before the first message.
        reached: the clock of every partition: `stamped`, or later if it is idle.
        read: what every partition has given so far; None before the first message since the start that was asked for.
        over: whether this part of the work is done.
        sent: the checksums sent, for every window: claimed with the messages, so that they agree with the offsets.
    """

    offsets: tuple[int, ...]
    stamped: tuple[int | None, ...]
    reached: tuple[int | None, ...]
    read: tuple[Sums | None, ...]
    over: bool = False
    sent: SentChecksums = SentChecksums()

    def clock(self) -> int | None:
        """The clock of the partition that is farthest behind."""
        known = [time for time in self.reached if time is not None]
        return min(known) if len(known) == len(self.reached) else None


@dataclass(frozen=True)
class Log:
    """A topic as it was at the launch.

    Args:
        begin: the offset at which reading starts, of every partition.
        behind: seconds by which the clock of an idle log stays behind the wall clock: clocks of broker and worker may
            differ, and a broker holds a message back until its replicas have it.
        since: the timestamp of the first message that is read, in milliseconds since 1970 UTC; None for the beginning.
        id: the topic's; empty where its broker gives none.
    """

    topic: KafkaTopic
    begin: Mapping[int, int]
    behind: float
    since: int | None = None
    id: str = ""


@crosses
class ReadPartitionsDoFn(beam.DoFn, RestrictionProvider):
    """Reads a group of partitions for a second at a time, then gives the rest back to the runner.

    One element reads all partitions of a group, since not every runner takes the minimum of several sources'
    watermarks: Prism follows whichever reported last, and would publish windows before their rows have come.
    """

    record: InputRecord | None = None
    """Where it is written down what is read."""

    def __init__(self, log: Log, columns: Columns, payload: Payload, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._decoder, self._checksums = Decoder(payload, columns), BlockChecksums(clock.period)
        self._readers: dict[Group, GroupReader] = {}

    def initial_restriction(self, group: Group) -> Positions:
        nothing = (None,) * len(group)
        read = nothing if self._log.since is not None else ((0, 0),) * len(group)
        return Positions(tuple(self._log.begin[partition] for partition in group), nothing, nothing, read)

    def create_tracker(self, restriction: Positions) -> StreamTracker:
        return StreamTracker(restriction)

    def restriction_size(self, group: Group, restriction: Positions) -> int:
        return 1

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        group: Group,
        tracker: Any = beam.DoFn.RestrictionParam(),  # noqa: ANN401, B008 - Beam's convention
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),  # noqa: ANN401, B008
    ) -> Iterator[TimestampedValue]:
        reader = self._reader(tuple(group))
        yield from self._turn(tuple(group), reader, tracker, estimator)
        reader.write_down()  # before this bundle is committed, and with it what closes a window

    def _turn(
        self,
        group: Group,
        reader: GroupReader,
        tracker: Any,  # noqa: ANN401 - Beam's
        estimator: Any,  # noqa: ANN401 - Beam's
    ) -> Iterator[TimestampedValue]:
        """Reads for a while."""
        positions = tracker.current_restriction()
        self._clock.catch_up(estimator, positions.sent.closed)
        deadline, quiet = time.monotonic() + _TURN, set(group)
        while not self._clock.is_over(estimator):
            polled = time.time()
            batches = reader.read(positions.offsets)
            quiet -= set(batches)
            pausing = not batches or time.monotonic() > deadline
            if pausing and self._clock.by_rows:
                reader.check_rest(positions, quiet)
            elif pausing:
                positions = self._up_to_date(reader, group, positions, quiet, int((polled - self._log.behind) * 1e6))
            blocks: list[pa.RecordBatch] = []
            for partition, messages in batches.items():
                slot = group.index(partition)
                block, positions, passed = self._taken(positions, slot, messages, now_of(estimator).micros)
                reader.join(partition, passed)
                if len(block):
                    name = b"%d %d %d" % (partition, messages[0].offset(), positions.offsets[slot])
                    block, sent = self._checksums.add(block, name, positions.sent)
                    blocks, positions = [*blocks, block], positions._replace(sent=sent)
            closed = self._clock.closed_by(positions.clock() or 0)
            if closed > positions.sent.closed:
                reader.check_topic()
                for slot, partition in enumerate(group):  # an idle one: nothing that comes later is before its clock
                    idle = range(self._closed_by(positions.stamped[slot]), closed)
                    reader.join(partition, {self._closing(number): positions.read[slot] or (0, 0) for number in idle})
                receipts, sent = self._checksums.close(positions.sent, closed, group[0])
                blocks, positions = [*blocks, *receipts], positions._replace(sent=sent)
            if not tracker.try_claim(positions):
                return
            yield from (TimestampedValue(block, now_of(estimator)) for block in blocks)
            reader.moved(positions.offsets)
            self._clock.advance(estimator, positions.clock())
            if pausing:
                reader.hears_nothing_of(self._holding(group, positions, quiet, polled))
                tracker.defer_remainder(Duration(0 if batches else _QUIET))
                return
        tracker.try_claim(positions._replace(over=True))

    def teardown(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _reader(self, group: Group) -> GroupReader:
        if group not in self._readers:
            reader = GroupReader(self._log, group, self._clock, self.record)
            try:
                reader.check_topic()
                reader.open_record()
            except BaseException:
                reader.close()
                raise
            self._readers[group] = reader
        return self._readers[group]

    def _taken(
        self, before: Positions, slot: int, messages: list[Any], now: int
    ) -> tuple[pa.RecordBatch, Positions, dict[int, Sums]]:
        """The block of some messages of a partition, the positions after them, and what the partition has given before
        each closing of a window that they are the first to pass.
        """
        offset, read = messages[-1].offset() + 1, before.read[slot]
        if read is None:
            # The launch may have come before the first message since then: a repetition would begin at that one.
            since = self._log.since or 0
            first = next((n for n, message in enumerate(messages) if message.timestamp()[1] >= since), None)
            messages, read = ([], None) if first is None else (messages[first:], (0, 0))
        values = [message.value() for message in messages]
        stamped = before.stamped[slot]
        if self._clock.by_rows:
            block = self._decoder.block(values)
            stamped = _later(stamped, pc.max(block["time"]).as_py())
        else:
            arrived = self._arrived(stamped, messages, now)
            block = self._decoder.block(values, arrived.tolist())
            stamped = int(arrived[-1]) if len(arrived) else stamped
        passed: dict[int, Sums] = {}
        if read is not None:
            closed = range(self._closed_by(before.stamped[slot]), self._closed_by(stamped))
            passed, read = self._counted(block, read, closed)
        after = before._replace(
            offsets=_with(before.offsets, slot, offset),
            stamped=_with(before.stamped, slot, stamped),
            reached=_with(before.reached, slot, stamped),  # a log that moves sets its own clock
            read=_with(before.read, slot, read),
        )
        return block, after, passed

    def _counted(self, block: pa.RecordBatch, read: Sums, closed: range) -> tuple[dict[int, Sums], Sums]:
        """What a partition has given before it passes the closing of each window, and with all of a block.

        Rows outside the horizon, which retention may take with impunity, do not count.
        """
        times, period = block["time"].to_numpy(), self._clock.period
        counts = (times >= period.starts[0]) & (times < period.ends[-1])
        numbers = np.concatenate([[0], np.cumsum(counts)])
        totals = np.concatenate([[0], np.cumsum(np.where(counts, times, 0))])  # modulo 2**64

        def sums(rows: int) -> Sums:
            return read[0] + int(numbers[rows]), (read[1] + int(totals[rows])) & _MASK

        clock = np.maximum.accumulate(times if self._clock.by_rows else block["arrived"].to_numpy())
        passed = {closing: sums(int(np.searchsorted(clock, closing))) for closing in map(self._closing, closed)}
        return passed, sums(len(times))

    def _closing(self, number: int) -> int:
        return int(self._clock.period.closing[number])

    def _closed_by(self, micros: int | None) -> int:
        return 0 if micros is None else self._clock.closed_by(micros)

    def _arrived(self, before: int | None, messages: list[Any], now: int) -> np.ndarray:
        """When every message arrived, microseconds since 1970 UTC.

        Raises InvalidArgument where the log cannot be trusted.
        """
        _check_stamped(self._log.topic, messages)
        stamps = [message.timestamp() for message in messages]
        arrived = np.maximum.accumulate([before or 0, *(stamp * 1000 for _, stamp in stamps)])[1:]
        if len(arrived) and self._clock.closes_between(int(arrived[0]), now):
            raise of_another_release(
                "",
                f"{self._log.topic.uri} gave a message late, stamped before a window had closed that "
                "is published without it: the clocks of broker and worker differ, or the broker held it back",
                "set the clocks right, or allow more lateness",
            )
        return arrived

    def _up_to_date(
        self, reader: GroupReader, group: Group, positions: Positions, quiet: set[int], now: int
    ) -> Positions:
        """The positions, in which idle logs, confirmed by the broker, follow the wall clock."""
        for slot, partition in enumerate(group):
            if partition in quiet and reader.at_the_end(partition, positions.offsets[slot]):
                reached = _with(positions.reached, slot, _later(positions.reached[slot], now))
                positions = positions._replace(reached=reached)
        return positions

    def _holding(self, group: Group, positions: Positions, quiet: set[int], polled: float) -> list[int]:
        """The quiet partitions without which more windows would be closed."""
        wall = int((polled - self._log.behind) * 1e6)
        ahead = (
            max((time for time in positions.reached if time is not None), default=0) if self._clock.by_rows else wall
        )
        reached = zip(group, positions.reached, strict=True)
        return [part for part, time in reached if part in quiet and self._clock.closes_between(time or 0, ahead)]


def _with(values: tuple[Any, ...], slot: int, value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of any kind
    return (*values[:slot], value, *values[slot + 1 :])


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


class GroupReader:
    """Reads committed messages of some partitions, holds what they give against the record, and looks up the ends of
    logs, which open transactions hide.
    """

    def __init__(self, log: Log, group: Group, clock: Clock, record: InputRecord | None = None) -> None:
        topic = self._topic = log.topic
        self._log, self._group, self._clock, self._record = log, group, clock, record
        self._seals: dict[tuple[int, int], str] = {}
        self._last: dict[int, int] = {}
        self._unwritten: list[Entry] = []
        self._gapped = False
        self._consumer, self._observer = topic.consumer(), topic.observer()
        self._places: tuple[int, ...] = ()
        self._ends: dict[int, int] = {}
        self._troubled: float | None = None
        self._away: float | None = None
        self._answering: float | None = None
        self._held_since: dict[int, float] = {}
        self._told: set[int] = set()

    def close(self) -> None:
        self._consumer.close()
        self._observer.close()

    def read(self, offsets: tuple[int, ...]) -> dict[int, list[Any]]:
        """Messages from the offsets on, by partition; empty if there are none at present.

        Raises:
            InvalidArgument: messages were deleted before they were read.
            KafkaException: only errors came for half a minute, so that the runner retries.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        places = list(zip(self._group, offsets, strict=True))
        if self._places != offsets:
            self._consumer.assign([TopicPartition(self._topic.topic, part, offset) for part, offset in places])
            self._places, self._ends = offsets, dict(places)
        batches = defaultdict(list)
        for message in self._consumer.consume(_BATCH, _WAIT):
            code = message.error() and message.error().code()
            if code in (None, KafkaError._PARTITION_EOF):
                if code is None:
                    batches[message.partition()].append(message)
                else:
                    self._ends[message.partition()] = message.offset()
                self._troubled = None
                self._hears(True)
            elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION):
                if self._log.id and self._topic.id() != self._log.id:
                    raise _another(self._topic)
                raise _lost(self._topic)
            else:  # a partition has no leader for a while when another broker takes over
                self._hears(False)
                self._troubled = self._troubled or time.monotonic()
                if time.monotonic() - self._troubled > _PATIENCE:
                    raise KafkaException(message.error())
        self._tell_if_back()
        gaps = (
            batches[part][-1].offset() + 1 - offset > len(batches[part]) for part, offset in places if part in batches
        )
        if not self._gapped and any(gaps):
            self._gapped = True
            uri = self._topic.uri
            told = f"{uri} has offsets without a message: transactions leave them, and compaction, which takes rows"
            say(Line(told, event="gap", input=uri))
        return dict(batches)

    def _hears(self, there: bool) -> None:
        """Note since when the topic answers, and report once that it does not: windows wait for it."""
        if there:
            self._answering = self._answering or time.monotonic()
            return
        self._answering = None
        if self._away is None:
            self._away, uri = time.monotonic(), self._topic.uri
            say(Line(f"{uri} does not answer: windows wait for it", event="away", input=uri))

    def _tell_if_back(self) -> None:
        """Report once that the topic answers again, when it has for a while: at first it does on and off."""
        since, uri = self._answering, self._topic.uri
        if self._away is None or since is None or time.monotonic() - since < _STEADY:
            return
        seconds, self._away = round(since - self._away), None
        say(
            Line(
                f"{uri} answers again, after {seconds} s: rows that producers held back for longer than the "
                f"lateness of {self._clock.period.allowed_lateness.total_seconds():g} s may be late, and dropped",
                event="back",
                input=uri,
                seconds=seconds,
            )
        )

    def hears_nothing_of(self, partitions: list[int]) -> None:
        """Report once of each of these partitions that it has held windows for a minute."""
        now, uri = time.monotonic(), self._topic.uri
        self._held_since = {part: self._held_since.get(part, now) for part in partitions}
        self._told &= set(partitions)
        late = sorted({part for part, since in self._held_since.items() if now - since >= _HELD} - self._told)
        if late and self._away is None:
            self._told |= set(late)
            why = "a row there with a later time" if self._clock.by_rows else "what a transaction there may hold back"
            names = ", ".join(map(str, late))
            told = f"{uri}: for {_HELD:g} s no message has come from partition {names}, and windows wait for {why}"
            say(Line(told, event="held", input=uri, partitions=late))

    def moved(self, offsets: tuple[int, ...]) -> None:
        """Note that the messages before these offsets were claimed."""
        self._places = offsets

    def at_the_end(self, partition: int, offset: int) -> bool:
        """Whether the log has no message from an offset on, committed or not. False if the broker does not answer."""
        from confluent_kafka import KafkaException, TopicPartition

        try:
            _, end = self._observer.get_watermark_offsets(TopicPartition(self._topic.topic, partition), timeout=5)
        except KafkaException:
            self._hears(False)
            return False
        self._hears(True)
        return end <= max(offset, self._ends.get(partition, offset))

    def check_topic(self) -> None:
        """Raise InvalidArgument if the topic is not the one of the launch, has more partitions by now or is compacted;
        KafkaException if no broker answers, or the topic is gone.
        """
        from confluent_kafka import KafkaException

        metadata = self._observer.list_topics(self._topic.topic, timeout=_PATIENCE).topics[self._topic.topic]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        if len(metadata.partitions) > len(self._log.begin):
            raise InvalidArgument(
                "",
                f"{self._topic.uri} was given more partitions, which are not read",
                "start again with the same arguments: then all of them are",
            )
        if self._log.id and self._topic.id() != self._log.id:
            raise _another(self._topic)
        settings = self._topic.settings_of("topic", self._topic.topic)
        check_not_compacted(self._topic, settings.get("cleanup.policy", ""))

    def open_record(self) -> None:
        """Look up what is on record, and write down that the topic is read. Raise InvalidArgument if another was."""
        if self._record is None:
            return
        topic, log = self._topic.topic, self._log
        known = self._record.read()
        check_same(self._topic, known, log.id, log.since, len(log.begin))
        for entry in known:
            if entry.get("topic") == topic and "partition" in entry:
                part, closing = entry["partition"], entry["closing"]
                self._seals[part, closing] = entry["read"]
                self._last[part] = max(self._last.get(part, closing), closing)
        self._record.add([{"topic": topic, "id": log.id, "since": log.since}])

    def join(self, partition: int, passed: Mapping[int, Sums]) -> None:
        """Hold what a partition has given before the closings of some windows against the record; what is new is
        written down by `write_down`. Raise InvalidArgument if other rows are on record.
        """
        if self._record is None:
            return
        for closing, sums in passed.items():
            seal = self._record.sealed(partition, closing, *sums)
            if self._seals.setdefault((partition, closing), seal) != seal:
                raise _not_joined(self._topic)
            entry = {"topic": self._topic.topic, "partition": partition, "closing": closing, "read": seal}
            self._unwritten.append(entry)

    def check_rest(self, positions: Positions, quiet: Iterable[int]) -> None:
        """Raise InvalidArgument if a partition ends before the last row by the clock "event" that is on record."""
        for part in quiet:
            slot = self._group.index(part)
            behind = part in self._last and self._clock.closes_between(positions.stamped[slot] or 0, self._last[part])
            if behind and self.at_the_end(part, positions.offsets[slot]):
                raise _not_joined(self._topic)

    def write_down(self) -> None:
        """Put on record what was read."""
        if self._record is not None:
            self._record.add(self._unwritten)
        self._unwritten = []


def _another(topic: KafkaTopic) -> InvalidArgument:
    return of_another_release(
        "",
        f"{topic.uri} was deleted and created again since this release began, so what is published "
        "from now on would be of other rows",
    )


def _not_joined(topic: KafkaTopic) -> InvalidArgument:
    return of_another_release(
        "",
        f"{topic.uri} no longer gives the rows that this release has read from it: messages were deleted or compacted "
        "away, or the topic was deleted and created again since this release began, so what is published from now on "
        "would be of other rows",
    )


def _lost(topic: KafkaTopic) -> InvalidArgument:
    return of_another_release(
        "",
        f"{topic.uri} has lost messages before they were read, by its retention or "
        "by a broker that took over with less: the same release would be another answer",
        "keep messages for longer than they wait to be read",
    )


def check_same(topic: KafkaTopic, record: Iterable[Entry], id: str, since: int | None, partitions: int) -> None:
    """Raise InvalidArgument if another topic of this name is on record, by its id or its partitions, or this one was
    read from another time on.
    """
    for entry in record:
        if entry.get("topic") != topic.topic:
            continue
        if (id and entry.get("id") not in (None, "", id)) or entry.get("partition", 0) >= partitions:
            raise _another(topic)
        if entry.get("since", since) != since:
            began = "earliest" if entry["since"] is None else _iso(entry["since"])
            rule = f"must be {began}, with which this release began"
            raise InvalidArgument("kafka_start", rule, f"give it again, or {ANOTHER_RELEASE}")


def _iso(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")


class Extent(NamedTuple):
    """The log of a partition at the launch, by offsets.

    Args:
        low, high: its first one that is left, and the one after its last.
        begin: where reading starts.
    """

    low: int
    high: int
    begin: int


def extent_of(observer: Any, topic: KafkaTopic, partition: int, since: int | None) -> Extent:  # noqa: ANN401
    """The log of a partition. Reading starts at the first message stamped at `since` (milliseconds since 1970 UTC) or
    later; for None, at the first.

    Raises:
        InvalidArgument: of the field `input`, if no broker tells.
    """
    from confluent_kafka import KafkaException, TopicPartition

    def ask() -> Extent:
        low, high = observer.get_watermark_offsets(TopicPartition(topic.topic, partition), timeout=_PATIENCE)
        if since is None:
            return Extent(low, high, low)
        position = observer.offsets_for_times([TopicPartition(topic.topic, partition, since)], timeout=_PATIENCE)[0]
        if position.error:  # not the same as no message since then, for which reading would start at the end
            raise KafkaException(position.error)
        return Extent(low, high, position.offset if position.offset >= 0 else high)

    return patiently(topic, ask)


def first_messages(observer: Any, topic: KafkaTopic, begin: Mapping[int, int]) -> dict[int, Any]:  # noqa: ANN401
    """The first message of every partition from an offset on; None where there is none.

    Raises Unreachable if a broker does not answer, and InvalidArgument if the offset is gone.
    """
    from confluent_kafka import KafkaError, TopicPartition

    observer.assign([TopicPartition(topic.topic, partition, offset) for partition, offset in begin.items()])
    found: dict[int, Any] = {}
    deadline = time.monotonic() + _SETTLED
    while len(found) < len(begin):
        for message in observer.consume(len(begin), _WAIT):
            if not message.error():
                found.setdefault(message.partition(), message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                found.setdefault(message.partition(), None)
            elif message.error().code() == KafkaError._AUTO_OFFSET_RESET:
                raise _lost(topic)
        if time.monotonic() > deadline:
            raise Unreachable("", f"{topic.uri} does not answer")
    return found


def check_start(
    observer: Any,  # noqa: ANN401 - the client's own
    topic: KafkaTopic,
    extents: Mapping[int, Extent],
    since: int | None,
    start: int,
) -> None:
    """Raise InvalidArgument if messages were deleted that may be of the horizon.

    What was deleted had come before the first message that is left. Only a broker's timestamp says when that was: by
    the times of senders a late message may follow, and be left of, a whole week. Where it is not known, the operator
    may vouch for it with a start, and is told so.

    Args:
        since, start: milliseconds since 1970 UTC: the start that was asked for, and the horizon's.
    """
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

    wanted, named = (start, "{period_from}") if since is None or since < start else (since, "{kafka_start}")
    deleted = {partition: extent.low for partition, extent in extents.items() if extent.low > 0}
    vouched = False
    for first in first_messages(observer, topic, deleted).values():
        stamped: tuple[int, Any] = (0, None) if first is None else first.timestamp()
        kind, stamp = stamped
        # What is gone had been there for a while, as rows of a horizon that is still to come have not.
        came: float = stamp if kind == TIMESTAMP_LOG_APPEND_TIME else (time.time() - _KEPT) * 1000
        if came < wanted:
            continue
        if stamp is None or stamp >= wanted:
            why = "none is left that tells" if stamp is None else f"its first one left was stamped after {named}"
        elif since is None:
            why = "its first one left was stamped by who sent it, which does not say when they came"
        else:
            vouched = True
            continue
        raise InvalidArgument(
            "",
            f"{topic.uri} has deleted messages which may be of the horizon: {why}",
            "begin later, or give {kafka_start}, a time from which on all are there; where this release has begun, "
            f"{ANOTHER_RELEASE}",
        )
    if vouched:
        say(
            f"{topic.uri} has deleted messages, and what is left does not tell when they came: that all are there "
            f"since {_iso(since or 0)} is taken from --kafka-start"
        )


def patiently(topic: KafkaTopic, ask: Callable[[], _T]) -> _T:
    """The answer of a broker that may just be taking over a partition, with retries for half a minute.

    Raises:
        Unreachable: of the field `input`, if there is no answer by then.
    """
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + _SETTLED
    while True:
        try:
            return ask()
        except KafkaException as error:
            if time.monotonic() > deadline:
                rule = f"{topic.uri} does not answer: {verbatim(error.args[0].str())}"
                raise Unreachable("input", rule) from None
        time.sleep(_PAUSE)
