"""Reading the partitions of a topic: one consumer, a turn at a time, positions kept by the runner.

What a row's arrival is must be seen again by whoever reads the log anew. So a message has arrived at the latest stamp
that the broker had put on its partition by then: in order, even if the broker's clock is set back. A log that stands
still follows the wall clock, so far behind that whatever comes later bears a later stamp; where one does not after
all, the report fails, for it would count other rows when repeated.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration

from private_topk.pipelines.sources.clock import Clock, now_of
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.kafka_reader import Group, GroupReader, first_offset
from private_topk.pipelines.sources.kafka_topic import KafkaTopic
from private_topk.pipelines.sources.payloads import Decoder, Payload
from private_topk.transforms.completeness import Sender, Sent
from private_topk.transforms.errors import Refusal

__all__ = ["Log", "Positions", "PositionsTracker", "ReadPartitionsDoFn"]

_TURN = 1.0
_PAUSE = 0.5


class Positions(NamedTuple):
    """How far a group of partitions has been read. Also the claim of a batch of messages.

    Args:
        offsets: the next offset of every partition.
        stamped: the latest stamp of every partition, or row's time where the rows carry the clock; as the next one in
            microseconds since 1970 UTC, None before the first message.
        reached: the clock of every partition: that, or later where it stands still.
        over: whether nothing more belongs to this part of the work.
        sent: what has been sent of every window: claimed with the messages, so that it is in step with the offsets.
    """

    offsets: tuple[int, ...]
    stamped: tuple[int | None, ...]
    reached: tuple[int | None, ...]
    over: bool = False
    sent: Sent = Sent()

    def clock(self) -> int | None:
        """That of the partition that is farthest behind."""
        known = [time for time in self.reached if time is not None]
        return min(known) if len(known) == len(self.reached) else None


class PositionsTracker(RestrictionTracker):
    """Its only split is the one that gives the rest back: no offset is half-way to the end of a log."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions

    def current_restriction(self) -> Positions:
        return self._positions

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(fraction=1.0 if self._positions.over else 0.0)

    def try_claim(self, positions: Positions) -> bool:
        """Claim all messages before these positions. False if the rest has been given back: they are read again."""
        if self._positions.over:
            return False
        self._positions = positions
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[Positions, Positions] | None:
        if self._positions.over or fraction_of_remainder != 0:
            return None
        rest, self._positions = self._positions, self._positions._replace(over=True)
        return self._positions, rest

    def check_done(self) -> None:
        if not self._positions.over:
            raise ValueError("the partitions are still to be read")

    def is_bounded(self) -> bool:
        return False


@dataclass(frozen=True)
class Log:
    """A topic as it was at the launch.

    Args:
        since: milliseconds since 1970 UTC where it is entered; None for its beginning.
        partitions: how many it has.
        behind: seconds by which the clock of a log that stands still stays behind: clocks of broker and worker may
            differ, and a broker holds a message back until its replicas have it.
    """

    topic: KafkaTopic
    since: int | None
    partitions: int
    behind: float


class ReadPartitionsDoFn(beam.DoFn, RestrictionProvider):
    """Reads a group of partitions for a second at a time, then gives the rest of it back to the runner.

    One element reads them all, since not every runner takes the least of several sources' watermarks: Prism follows
    whichever reported last, and would publish windows before their rows have come.
    """

    def __init__(self, log: Log, columns: Columns, payload: Payload, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._decoder, self._sender = Decoder(payload, columns), Sender(clock.period)
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

    def create_tracker(self, restriction: Positions) -> PositionsTracker:
        return PositionsTracker(restriction)

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
            asked = time.time()
            found = reader.read(positions.offsets)
            quiet -= set(found)
            if not found and not self._clock.by_rows:
                positions = self._up_to_date(reader, group, positions, quiet, int((asked - self._log.behind) * 1e6))
            blocks: list[pa.RecordBatch] = []
            for partition, messages in found.items():
                place = group.index(partition)
                block, positions = self._taken(positions, place, messages, now_of(estimator).micros)
                if len(block):
                    name = b"%d %d %d" % (partition, messages[0].offset(), positions.offsets[place])
                    block, sent = self._sender.mark(block, name, positions.sent)
                    blocks, positions = [*blocks, block], positions._replace(sent=sent)
            closed = self._clock.closed_by(positions.clock() or 0)
            if closed > positions.sent.closed:
                reader.check_partitions()
                said, sent = self._sender.close(positions.sent, closed, group[0])
                blocks, positions = [*blocks, *said], positions._replace(sent=sent)
            if not tracker.try_claim(positions):
                return
            yield from (TimestampedValue(block, now_of(estimator)) for block in blocks)
            reader.moved(positions.offsets)
            self._clock.advance(estimator, positions.clock())
            if not found or time.monotonic() > deadline:
                tracker.defer_remainder(Duration(0 if found else _PAUSE))
                return
        tracker.try_claim(positions._replace(over=True))

    def teardown(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _reader(self, group: Group) -> GroupReader:
        if group not in self._readers:
            self._readers[group] = GroupReader(self._log.topic, group, self._log.partitions)
        return self._readers[group]

    def _taken(self, before: Positions, place: int, messages: list[Any], now: int) -> tuple[pa.RecordBatch, Positions]:
        """The rows of some messages of a partition, and the positions after them."""
        values = [message.value() for message in messages]
        if self._clock.by_rows:
            block = self._decoder.block(values)
            stamped = _later(before.stamped[place], pc.max(block["time"]).as_py())
        else:
            arrived = self._arrived(before.stamped[place], messages, now)
            block, stamped = self._decoder.block(values, arrived.tolist()), int(arrived[-1])
        return block, before._replace(
            offsets=_with(before.offsets, place, messages[-1].offset() + 1),
            stamped=_with(before.stamped, place, stamped),
            reached=_with(before.reached, place, stamped),  # the log itself says how far it is
        )

    def _arrived(self, before: int | None, messages: list[Any], now: int) -> np.ndarray:
        """When every message arrived, microseconds since 1970 UTC. Raises Refusal where the log cannot be trusted."""
        from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

        stamps = [message.timestamp() for message in messages]
        if any(kind != TIMESTAMP_LOG_APPEND_TIME for kind, _ in stamps):
            raise Refusal("", f"{self._log.topic.place} holds messages that were stamped by who sent them",
                          "set message.timestamp.type=LogAppendTime and enter it after that with {kafka_start}, or "
                          "give {clock} event")  # fmt: skip
        arrived = np.maximum.accumulate([before or 0, *(stamp * 1000 for _, stamp in stamps)])[1:]
        if self._clock.closes_between(int(arrived[0]), now):
            raise Refusal("", f"{self._log.topic.place} gave a message late, stamped before a window had closed that "
                          "is published without it: the clocks of broker and worker differ, or the broker held it back",
                          "set the clocks right, or give more {slack}, and take a new {release_id}")  # fmt: skip
        return arrived

    def _up_to_date(
        self, reader: GroupReader, group: Group, positions: Positions, quiet: set[int], now: int
    ) -> Positions:
        """Logs that stand still keep up with the wall clock, where the broker says that they do."""
        for place, partition in enumerate(group):
            if partition in quiet and reader.at_the_end(partition, positions.offsets[place]):
                reached = _with(positions.reached, place, _later(positions.reached[place], now))
                positions = positions._replace(reached=reached)
        return positions


def _with(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of any kind
    return (*values[:place], value, *values[place + 1 :])


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)
