"""Reads the log of a Kafka topic in a splittable DoFn, a second at a time, and holds it against the record."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration

from private_topk.pipelines.release.input_record import Entry, InputRecord
from private_topk.pipelines.sources.clock import Clock, StreamTracker, now_of
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.kafka_log import (
    Log,
    another,
    arrivals,
    check_not_compacted,
    check_same,
    lost,
    not_joined,
)
from private_topk.pipelines.sources.kafka_topic import ANSWERED, BATCH, PATIENCE, WAIT, patiently
from private_topk.pipelines.sources.payloads import Decoder, Payload
from private_topk.runners import Line, say
from private_topk.transforms.completeness import BlockChecksums, SentChecksums
from private_topk.transforms.errors import InvalidArgument, crosses, of_another_release

Group = tuple[int, ...]
Sums = tuple[int, int]
"""How many rows of the horizon a partition has given, and the sum of their times, modulo 2**63."""

# Seconds.
_TURN = 1.0  # of reading, after which the runner may take a checkpoint
_STEADY = 10.0  # of answers, after which a topic is back: a client tries a lost connection again within them
_QUIET = 0.5  # until an idle log is polled again
_HELD = 60.0  # for which a partition may hold windows before that is told
_MASK = (1 << 63) - 1


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
                reader.look_up()
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
        arrived = arrivals(self._log.topic, messages, before or 0)
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
        self._looked = time.monotonic()

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
        for message in self._consumer.consume(BATCH, WAIT):
            code = message.error() and message.error().code()
            if code in (None, KafkaError._PARTITION_EOF):
                if code is None:
                    batches[message.partition()].append(message)
                else:
                    self._ends[message.partition()] = message.offset()
                self._troubled = None
                self._hears(True)
            elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION):
                self.check_topic()
                raise lost(self._topic)
            else:  # a partition has no leader for a while when another broker takes over
                self._hears(False)
                self._troubled = self._troubled or time.monotonic()
                if time.monotonic() - self._troubled > PATIENCE:
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
            say(Line(f"{uri} does not answer: windows wait for it", event="away", level="warning", input=uri))

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
                level="warning",
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
        Unreachable if no broker answers, or the topic is gone.
        """
        self._check(*patiently(self._topic, self._found))

    def look_up(self) -> None:
        """Check the topic once a minute, where nothing else asks for it: a client is not told that one was deleted."""
        from confluent_kafka import KafkaException

        if time.monotonic() - self._looked < _HELD:
            return
        self._looked = time.monotonic()
        try:
            found = self._found()
        except KafkaException:
            self._hears(False)
            return
        self._hears(True)
        self._check(*found)

    def _check(self, partitions: int, id: str) -> None:
        if partitions > len(self._log.begin):
            raise InvalidArgument(
                "",
                f"{self._topic.uri} was given more partitions, which are not read",
                "start again with the same arguments: then all of them are",
            )
        if id != self._log.id:
            raise another(self._topic)
        settings = self._topic.settings_of("topic", self._topic.topic)
        check_not_compacted(self._topic, settings.get("cleanup.policy", ""))

    def _found(self) -> tuple[int, str]:
        """How many partitions the topic has, and its id if its broker gave one at the launch. Raises KafkaException."""
        from confluent_kafka import KafkaException

        metadata = self._observer.list_topics(self._topic.topic, timeout=ANSWERED).topics[self._topic.topic]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        return len(metadata.partitions), self._log.id and self._topic.id()

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
                raise not_joined(self._topic)
            entry = {"topic": self._topic.topic, "partition": partition, "closing": closing, "read": seal}
            self._unwritten.append(entry)

    def check_rest(self, positions: Positions, quiet: Iterable[int]) -> None:
        """Raise InvalidArgument if a partition ends before the last row by the clock "event" that is on record."""
        for part in quiet:
            slot = self._group.index(part)
            behind = part in self._last and self._clock.closes_between(positions.stamped[slot] or 0, self._last[part])
            if behind and self.at_the_end(part, positions.offsets[slot]):
                raise not_joined(self._topic)

    def write_down(self) -> None:
        if self._record is not None:
            self._record.add(self._unwritten)
        self._unwritten = []
