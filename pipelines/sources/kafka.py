"""A Kafka topic as an unbounded source, read by librdkafka in a splittable DoFn: on every runner, without Java.

Arrival times must be the same when the log is read again. So a message arrives at the latest timestamp that the broker
has given in its partition up to it: in order, even if the broker's clock is set back. The clock of an idle log follows
the wall clock, far enough behind that later messages have later timestamps. If one does not, the report fails, since a
repetition would count other rows.

A topic that is deleted and created again under its name is another input: a broker gives each its own id, which is part
of the input's identity, is on record, and is looked up before windows close. Where a broker gives no ids, the first
messages that were read are on record: at the same offsets, a topic of the same name has others.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
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

from private_topk.pipelines.release.identity import fingerprint, identity_of, not_in_fingerprint
from private_topk.pipelines.release.input_record import Entry, InputRecord
from private_topk.pipelines.sources.clock import Clock, StreamTracker, moment_of, now_of
from private_topk.pipelines.sources.columns import Columns, Rows
from private_topk.pipelines.sources.payloads import Decoder, JsonPayload, Payload
from private_topk.pipelines.sources.source import BlockReader, Source, horizon
from private_topk.runners import Launch, Line, say
from private_topk.transforms.completeness import BlockChecksums, SentChecksums
from private_topk.transforms.errors import InvalidArgument, crosses, install_extra, of_another_release, verbatim
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows import Period

_T = TypeVar("_T")
Group = tuple[int, ...]

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
_QUIET = 0.5  # until an idle log is polled again
_HELD = 60.0  # for which a partition may hold windows before that is told
_WAIT = 0.2  # for messages
_APART = 5.0  # by which the clocks of broker and worker may differ
_LAG = 30.0  # for which a broker may hold a message back, by its default
_BATCH = 20_000  # messages


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

        Raises InvalidArgument of the field `name` if it cannot be reached or does not exist.
        """
        return sorted(self._metadata(name).partitions)

    def facts(self, name: str) -> TopicFacts:
        """The facts of the topic, from the broker. Raises InvalidArgument of the field `name`."""
        partitions = self._metadata(name).partitions
        topic, brokers = self._settings("topic", self.topic), partitions[min(partitions)].replicas
        broker = self._settings("broker", str(brokers[0])) if brokers else {}
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

    def refuse_another(self, record: Iterable[Entry], id: str) -> None:
        """Raise InvalidArgument if another topic of this name, by its id, is on record."""
        for entry in record:
            if entry.get("topic") == self.topic and entry.get("id", id) != id:
                raise _another(self)

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
            raise InvalidArgument(
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

    def _settings(self, kind: str, name: str) -> dict[str, str]:
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
        check_repeatable(self.topic, facts, self.clock)
        if not self.topic_id:
            say(
                f"{self.uri} has no id that its broker tells: if it is deleted and created again, that is noticed by "
                "its first messages only"
            )
        if self._since is not None and self._since > start:
            say(f"--kafka-start {self.start}: windows that began before it are published without the rows before it")
        if self.clock == "log" and horizon(period).closing[-1] < time.time() * 1e6:
            say(
                "the horizon has passed: only rows that the broker had stamped by then are on time, and a topic that "
                "was filled later needs --clock event"
            )
        observer = self.topic.observer()
        try:
            begin = {part: first_offset(observer, self.topic, part, self._since, start) for part in facts.partitions}
            if self.clock == "log":
                _check_first_stamps(observer, self.topic, begin)
        finally:
            observer.close()

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

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        asked = {"source": identity_of(self), "id": self.topic_id} if self.topic_id else self
        return fingerprint(asked, key)

    def check_record(self, record: InputRecord) -> None:
        self.topic.refuse_another(record.read(), self.topic_id)

    def read(self, period: Period | None) -> BlockReader:
        clock, facts = Clock(self.clock, horizon(period)), self.topic.facts("input")
        partitions = facts.partitions
        groups = [partitions[number :: self.readers] for number in range(min(self.readers, len(partitions)))]
        # A lagging follower is dropped at the broker's second check, half of that time after the first.
        behind = _APART + (1.5 * facts.lag if facts.replicas > 1 else 0)
        log = Log(self.topic, self._since, len(partitions), behind, self.topic_id)
        return _ReadGroups(groups, ReadPartitionsDoFn(log, self.columns, self.payload, clock))

    def rows(self, period: Period | None) -> Iterator[Rows]:
        """The rows of the messages that are there by now, as a run would read them.

        Raises InvalidArgument if the broker stops answering.
        """
        from confluent_kafka import KafkaError, TopicPartition

        start, columns, topic = int(horizon(period).starts[0]) // 1000, self.columns.within(period), self.topic
        observer, consumer = topic.observer(), topic.consumer()
        try:
            waiting = set(topic.partitions("input"))
            begin = {part: first_offset(observer, topic, part, self._since, start) for part in waiting}
            consumer.assign([TopicPartition(topic.topic, part, offset) for part, offset in begin.items()])
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
                    raise InvalidArgument("input", f"{self.uri} does not answer")
        finally:
            consumer.close()
            observer.close()

    @property
    def _since(self) -> int | None:
        return None if self.start == "earliest" else moment_of(self.start, "kafka_start")


def check_repeatable(topic: KafkaTopic, facts: TopicFacts, clock: str) -> None:
    """Raise InvalidArgument unless reading the topic again gives the same messages with the same arrival times."""
    if "compact" in facts.cleanup:
        raise InvalidArgument(
            "input",
            f"{topic.uri} is compacted: when a message goes nobody knows, and the same release "
            "would be another answer when repeated",
            "read a topic with cleanup.policy=delete",
        )
    if clock == "log" and facts.stamps == "CreateTime":
        raise InvalidArgument(
            "input",
            f"{topic.uri} is stamped by who sends: a single message with a made-up time would "
            "close windows for everybody",
            "set message.timestamp.type=LogAppendTime on the topic, or give {clock} event for a log in order",
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


def _check_first_stamps(observer: Any, topic: KafkaTopic, begin: dict[int, int]) -> None:  # noqa: ANN401
    """Raise InvalidArgument if the first message of a partition was stamped by who sent it, as before the setting was
    changed: a reader would meet it after the charge. Whoever does not answer is left to the reader.
    """
    from confluent_kafka import TopicPartition

    observer.assign([TopicPartition(topic.topic, partition, offset) for partition, offset in begin.items()])
    waiting, deadline = set(begin), time.monotonic() + _ANSWERED
    while waiting and time.monotonic() < deadline:
        for message in observer.consume(len(begin), _WAIT):  # a message, or that there is none
            waiting.discard(message.partition())
            if not message.error():
                _check_stamped(topic, [message], "input")


@beam.typehints.with_output_types(pa.RecordBatch)
class _ReadGroups(BlockReader):
    def __init__(self, groups: list[Group], fn: ReadPartitionsDoFn) -> None:
        super().__init__()
        self._groups, self._fn = groups, fn
        self.readers = [group[0] for group in groups]

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        self._fn.record = self.record
        return (
            pipeline
            | "Name the partitions" >> beam.Create(self._groups, reshuffle=False)
            | "Spread the partitions" >> beam.Reshuffle()
            | "Read the partitions" >> beam.ParDo(self._fn)
        )


class Positions(NamedTuple):
    """How far a group of partitions has been read: the restriction, and the position claimed with a batch of messages.

    Args:
        offsets: the next offset of every partition.
        stamped: the latest timestamp of every partition, or the latest time of a row by the clock "event"; like the
            next one in microseconds since 1970 UTC, None before the first message.
        reached: the clock of every partition: `stamped`, or later if it is idle.
        over: whether this part of the work is done.
        sent: the checksums sent, for every window: claimed with the messages, so that they agree with the offsets.
    """

    offsets: tuple[int, ...]
    stamped: tuple[int | None, ...]
    reached: tuple[int | None, ...]
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
        since: where reading starts, in milliseconds since 1970 UTC; None for the beginning.
        partitions: how many it has.
        behind: seconds by which the clock of an idle log stays behind the wall clock: clocks of broker and worker may
            differ, and a broker holds a message back until its replicas have it.
        id: the topic's; empty where its broker gives none.
    """

    topic: KafkaTopic
    since: int | None
    partitions: int
    behind: float
    id: str = ""


@crosses
class ReadPartitionsDoFn(beam.DoFn, RestrictionProvider):
    """Reads a group of partitions for a second at a time, then gives the rest back to the runner.

    One element reads all partitions of a group, since not every runner takes the minimum of several sources'
    watermarks: Prism follows whichever reported last, and would publish windows before their rows have come.
    """

    record: InputRecord | None = None
    """Where it is written down which topic is read."""

    def __init__(self, log: Log, columns: Columns, payload: Payload, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._decoder, self._checksums = Decoder(payload, columns), BlockChecksums(clock.period)
        self._readers: dict[Group, GroupReader] = {}

    def initial_restriction(self, group: Group) -> Positions:
        topic, since, start = self._log.topic, self._log.since, int(self._clock.period.starts[0]) // 1000
        observer = topic.observer()
        try:
            offsets = [first_offset(observer, topic, partition, since, start) for partition in group]
        finally:
            observer.close()
        nothing = (None,) * len(group)
        return Positions(tuple(offsets), nothing, nothing)

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
        group, positions = tuple(group), tracker.current_restriction()
        reader = self._reader(group)
        self._clock.catch_up(estimator, positions.sent.closed)
        deadline, quiet = time.monotonic() + _TURN, set(group)
        while not self._clock.is_over(estimator):
            polled = time.time()
            batches = reader.read(positions.offsets)
            quiet -= set(batches)
            pausing = not batches or time.monotonic() > deadline
            if pausing and not self._clock.by_rows:
                positions = self._up_to_date(reader, group, positions, quiet, int((polled - self._log.behind) * 1e6))
            blocks: list[pa.RecordBatch] = []
            for partition, messages in batches.items():
                reader.check_first(partition, messages[0])
                slot = group.index(partition)
                block, positions = self._taken(positions, slot, messages, now_of(estimator).micros)
                if len(block):
                    name = b"%d %d %d" % (partition, messages[0].offset(), positions.offsets[slot])
                    block, sent = self._checksums.add(block, name, positions.sent)
                    blocks, positions = [*blocks, block], positions._replace(sent=sent)
            closed = self._clock.closed_by(positions.clock() or 0)
            if closed > positions.sent.closed:
                reader.check_topic()
                receipts, sent = self._checksums.close(positions.sent, closed, group[0])
                blocks, positions = [*blocks, *receipts], positions._replace(sent=sent)
            if not tracker.try_claim(positions):
                return
            yield from (TimestampedValue(block, now_of(estimator)) for block in blocks)
            reader.moved(positions.offsets)
            self._clock.advance(estimator, positions.clock())
            if pausing:
                reader.hears_nothing_of(self._holding(group, positions, quiet, polled), self._clock.by_rows)
                tracker.defer_remainder(Duration(0 if batches else _QUIET))
                return
        tracker.try_claim(positions._replace(over=True))

    def teardown(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _reader(self, group: Group) -> GroupReader:
        if group not in self._readers:
            reader = GroupReader(self._log, group, self._clock.period.allowed_lateness, self.record)
            try:
                reader.check_topic()
            except BaseException:
                reader.close()
                raise
            self._readers[group] = reader
        return self._readers[group]

    def _taken(self, before: Positions, slot: int, messages: list[Any], now: int) -> tuple[pa.RecordBatch, Positions]:
        """The block of some messages of a partition, and the positions after them."""
        values = [message.value() for message in messages]
        if self._clock.by_rows:
            block = self._decoder.block(values)
            stamped = _later(before.stamped[slot], pc.max(block["time"]).as_py())
        else:
            arrived = self._arrived(before.stamped[slot], messages, now)
            block, stamped = self._decoder.block(values, arrived.tolist()), int(arrived[-1])
        return block, before._replace(
            offsets=_with(before.offsets, slot, messages[-1].offset() + 1),
            stamped=_with(before.stamped, slot, stamped),
            reached=_with(before.reached, slot, stamped),  # a log that moves sets its own clock
        )

    def _arrived(self, before: int | None, messages: list[Any], now: int) -> np.ndarray:
        """When every message arrived, microseconds since 1970 UTC.

        Raises InvalidArgument where the log cannot be trusted.
        """
        _check_stamped(self._log.topic, messages)
        stamps = [message.timestamp() for message in messages]
        arrived = np.maximum.accumulate([before or 0, *(stamp * 1000 for _, stamp in stamps)])[1:]
        if self._clock.closes_between(int(arrived[0]), now):
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
    """Reads committed messages of some partitions, and looks up the ends of logs, which open transactions hide."""

    def __init__(self, log: Log, group: Group, allowed_lateness: timedelta, record: InputRecord | None = None) -> None:
        topic = self._topic = log.topic
        self._log, self._group, self._allowed_lateness, self._record = log, group, allowed_lateness, record
        self._begun: set[int] = set()
        self._consumer, self._observer = topic.consumer(), topic.observer()
        self._places: tuple[int, ...] = ()
        self._ends: dict[int, int] = {}
        self._troubled: float | None = None
        self._away: float | None = None
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

        if self._places != offsets:
            places = list(zip(self._group, offsets, strict=True))
            self._consumer.assign([TopicPartition(self._topic.topic, part, offset) for part, offset in places])
            self._places, self._ends = offsets, dict(places)
        batches = defaultdict(list)
        for message in self._consumer.consume(_BATCH, _WAIT):
            if not message.error():
                batches[message.partition()].append(message)
                self._troubled = None
                self._hears(True)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._ends[message.partition()] = message.offset()
                self._troubled = None
                self._hears(True)
            elif message.error().code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION):
                if self._log.id and self._topic.id() != self._log.id:
                    raise _another(self._topic)
                raise of_another_release(
                    "",
                    f"{self._topic.uri} has lost messages before they were read, by its retention or "
                    "by a broker that took over with less: the same release would be another answer",
                    "keep messages for longer than they wait to be read",
                )
            elif self._gives_up():
                raise KafkaException(message.error())
        return dict(batches)

    def _gives_up(self) -> bool:
        """Whether errors have lasted too long: a partition has no leader for a while when another broker takes over."""
        self._hears(False)
        now = time.monotonic()
        self._troubled = now if self._troubled is None else self._troubled
        return now - self._troubled > _PATIENCE

    def _hears(self, there: bool) -> None:
        """Report once that the topic does not answer, and once that it does again: windows wait for it."""
        uri = self._topic.uri
        if not there and self._away is None:
            self._away = time.monotonic()
            say(Line(f"{uri} does not answer: windows wait for it", event="away", input=uri))
        elif there and self._away is not None:
            seconds, self._away = round(time.monotonic() - self._away), None
            say(
                Line(
                    f"{uri} answers again, after {seconds} s: rows that producers held back for longer than the "
                    f"lateness of {self._allowed_lateness.total_seconds():g} s may be late, and dropped",
                    event="back",
                    input=uri,
                    seconds=seconds,
                )
            )

    def hears_nothing_of(self, partitions: list[int], by_rows: bool) -> None:
        """Report once of each of these partitions that it has held windows for a minute."""
        now, uri = time.monotonic(), self._topic.uri
        self._held_since = {part: self._held_since.get(part, now) for part in partitions}
        self._told &= set(partitions)
        late = sorted({part for part, since in self._held_since.items() if now - since >= _HELD} - self._told)
        if late and self._away is None:
            self._told |= set(late)
            wanted = "a row there with a later time" if by_rows else "what a transaction there may hold back"
            names = ", ".join(map(str, late))
            told = f"{uri}: for {_HELD:g} s no message has come from partition {names}, and windows wait for {wanted}"
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
        """Raise InvalidArgument if the topic is not the one of the launch, or of the record, or has more partitions by
        now; KafkaException if no broker answers, or the topic is gone. The topic is on record then.
        """
        from confluent_kafka import KafkaException

        metadata = self._observer.list_topics(self._topic.topic, timeout=_PATIENCE).topics[self._topic.topic]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        if len(metadata.partitions) > self._log.partitions:
            raise InvalidArgument(
                "",
                f"{self._topic.uri} was given more partitions, which are not read",
                "start again with the same arguments: then all of them are",
            )
        known = [] if self._record is None else self._record.read()
        if not self._log.id:
            self._check_ends(known)
            return
        if self._topic.id() != self._log.id:
            raise _another(self._topic)
        self._topic.refuse_another(known, self._log.id)
        if self._record is not None:
            self._record.add([{"topic": self._topic.topic, "id": self._log.id}])

    def _check_ends(self, known: Iterable[Entry]) -> None:
        """Raise InvalidArgument if a partition ends before a message that is on record."""
        from confluent_kafka import TopicPartition

        for entry in known:
            if entry.get("topic") == self._topic.topic and entry.get("partition") in self._group:
                slot = TopicPartition(self._topic.topic, entry["partition"])
                if self._observer.get_watermark_offsets(slot, timeout=_PATIENCE)[1] <= entry["offset"]:
                    raise _another(self._topic)

    def check_first(self, partition: int, message: Any) -> None:  # noqa: ANN401 - the client's own
        """Put the first message that is read of a partition on record, where the topic has no id. Raise InvalidArgument
        if another one is on record at its offset.
        """
        if self._log.id or self._record is None or partition in self._begun:
            return
        first = {"topic": self._topic.topic, "partition": partition, "offset": message.offset()}
        stamped = {**first, "stamp": self._record.sealed(message.timestamp()[1])}
        known = [entry for entry in self._record.read() if entry.items() >= first.items()]
        if known and stamped not in known:
            raise _another(self._topic)
        self._record.add([stamped])
        self._begun.add(partition)


def _another(topic: KafkaTopic) -> InvalidArgument:
    return of_another_release(
        "",
        f"{topic.uri} was deleted and created again since this release began, so what is published "
        "from now on would be of other rows",
    )


def first_offset(observer: Any, topic: KafkaTopic, partition: int, since: int | None, start: int) -> int:  # noqa: ANN401
    """The offset at which reading starts: of the first message stamped at `since` or later; for None, of the first.

    Args:
        since, start: milliseconds since 1970 UTC; `start` is the horizon's.

    Raises:
        InvalidArgument: retention may have deleted messages of the horizon, or no broker tells where the log begins.
    """
    return patiently(topic, lambda: _entered(observer, topic, partition, since, start))


def _entered(observer: Any, topic: KafkaTopic, partition: int, since: int | None, start: int) -> int:  # noqa: ANN401
    from confluent_kafka import KafkaException, TopicPartition

    def at(moment: int) -> int:
        position = observer.offsets_for_times([TopicPartition(topic.topic, partition, moment)], timeout=_PATIENCE)[0]
        if position.error:  # not the same as no message since then, for which reading would start at the end
            raise KafkaException(position.error)
        return position.offset if position.offset >= 0 else high

    low, high = observer.get_watermark_offsets(TopicPartition(topic.topic, partition), timeout=_PATIENCE)
    wanted, named = (start, "{period_from}") if since is None or since < start else (since, "{kafka_start}")
    # An empty log does not tell what was stamped when; but retention is longer than a minute.
    if 0 < low == at(wanted) and not (low == high and wanted > (time.time() - 60) * 1000):
        raise InvalidArgument(
            "input",
            f"{topic.uri} has deleted messages which may be of the horizon: its first one left "
            f"was stamped after {named}",
            "begin later, or give {kafka_start}, a time from which on all are there",
        )
    return low if since is None else at(since)


def patiently(topic: KafkaTopic, ask: Callable[[], _T]) -> _T:
    """The answer of a broker that may just be taking over a partition, with retries for half a minute.

    Raises:
        InvalidArgument: of the field `input`, if there is no answer by then.
    """
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + _SETTLED
    while True:
        try:
            return ask()
        except KafkaException as error:
            if time.monotonic() > deadline:
                rule = f"{topic.uri} does not answer: {verbatim(error.args[0].str())}"
                raise InvalidArgument("input", rule) from None
        time.sleep(_PAUSE)
