"""Reading the partitions of a topic: one consumer, a turn at a time, positions kept by the runner."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow.compute as pc
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration

from private_topk.pipelines.sources.clock import Clock, now_of
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.kafka_topic import KafkaTopic
from private_topk.pipelines.sources.payloads import Decoder, Payload

__all__ = ["Group", "Positions", "PositionsTracker", "ReadPartitionsDoFn"]

_BATCH = 20_000
_TURN = 1.0
_WAIT = 0.2
_PAUSE = 0.5
_APART = 5.0  # seconds by which the clocks of broker and worker may differ, where an empty log is taken for up to date

Group = tuple[int, ...]


class Positions(NamedTuple):
    """How far a group of partitions has been read. Also the claim of a batch of messages.

    Args:
        offsets: the next offset of every partition.
        reached: the clock of every partition, microseconds since 1970 UTC; None before its first message.
        over: whether nothing more belongs to this part of the work.
    """

    offsets: tuple[int, ...]
    reached: tuple[int | None, ...]
    over: bool = False

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


class ReadPartitionsDoFn(beam.DoFn, RestrictionProvider):
    """Reads a group of partitions for a second at a time, then gives the rest of it back to the runner.

    One element reads them all, since not every runner takes the least of several sources' watermarks: Prism follows
    whichever reported last, and would publish windows before their rows have come.
    """

    def __init__(self, topic: KafkaTopic, columns: Columns, payload: Payload, clock: Clock, start: str) -> None:
        self._topic, self._clock, self._start = topic, clock, start
        self._decoder = Decoder(payload, columns)
        self._consumers: dict[Group, Any] = {}
        self._places: dict[Group, tuple[int, ...]] = {}
        self._ends: dict[int, int] = {}

    def initial_restriction(self, group: Group) -> Positions:
        from confluent_kafka import TopicPartition

        consumer, offsets = self._topic.consumer(), []
        try:
            for partition in group:
                low, high = consumer.get_watermark_offsets(TopicPartition(self._topic.topic, partition), timeout=30)
                offsets.append(high if self._start == "latest" else low)
        finally:
            consumer.close()
        return Positions(tuple(offsets), (None,) * len(group))

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
        deadline, quiet = time.monotonic() + _TURN, set(group)
        while not self._clock.is_over(estimator):
            asked = time.time()
            found = self._read(group, positions.offsets)
            quiet -= set(found)
            if not found and not self._clock.by_rows:
                positions = self._up_to_date(group, positions, quiet, int((asked - _APART) * 1e6))
            blocks = [(partition, self._block(messages)) for partition, messages in found.items()]
            positions = self._after(group, positions, found, dict(blocks), asked)
            if not tracker.try_claim(positions):
                return
            for _, block in blocks:
                if len(block):
                    yield TimestampedValue(block, now_of(estimator))
            self._places[group] = positions.offsets
            self._clock.advance(estimator, positions.clock())
            if not found or time.monotonic() > deadline:
                tracker.defer_remainder(Duration(0 if found else _PAUSE))
                return
        tracker.try_claim(positions._replace(over=True))

    def teardown(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()

    def _read(self, group: Group, offsets: tuple[int, ...]) -> dict[int, list[Any]]:
        """Messages from the offsets on, by partition; none if there are none at present. Raises KafkaException."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        if group not in self._consumers:
            self._consumers[group] = self._topic.consumer()
        consumer = self._consumers[group]
        if self._places.get(group) != offsets:
            places = zip(group, offsets, strict=True)
            consumer.assign([TopicPartition(self._topic.topic, partition, offset) for partition, offset in places])
            self._places[group] = offsets
            self._ends.update(zip(group, offsets, strict=True))
        found = defaultdict(list)
        for message in consumer.consume(_BATCH, _WAIT):
            if not message.error():
                found[message.partition()].append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._ends[message.partition()] = message.offset()
            else:
                raise KafkaException(message.error())
        return dict(found)

    def _block(self, messages: list[Any]) -> Any:  # noqa: ANN401 - a block
        arrived = None if self._clock.by_rows else [message.timestamp()[1] * 1000 for message in messages]
        return self._decoder.block([message.value() for message in messages], arrived)

    def _after(
        self, group: Group, before: Positions, found: dict[int, list[Any]], blocks: dict[int, Any], asked: float
    ) -> Positions:
        """The positions after some messages: the rows carry the event clock, their arrivals the log's."""
        offsets, reached = dict(zip(group, before.offsets, strict=True)), dict(zip(group, before.reached, strict=True))
        for partition, messages in found.items():
            offsets[partition] = messages[-1].offset() + 1
            if self._clock.by_rows:
                now = pc.max(blocks[partition]["time"]).as_py()
            else:
                now = min(messages[-1].timestamp()[1] * 1000, int(asked * 1e6))
            reached[partition] = _later(reached[partition], now)
        return Positions(tuple(offsets[part] for part in group), tuple(reached[part] for part in group))

    def _up_to_date(self, group: Group, positions: Positions, quiet: set[int], now: int) -> Positions:
        """Empty logs keep up with the wall clock, where the broker says that they are; not where it says nothing."""
        from confluent_kafka import KafkaException, TopicPartition

        reached = list(positions.reached)
        for place, partition in enumerate(group):
            if partition not in quiet:
                continue
            log = TopicPartition(self._topic.topic, partition)
            try:
                _, end = self._consumers[group].get_watermark_offsets(log, timeout=5)
            except KafkaException:
                continue
            if end <= max(positions.offsets[place], self._ends[partition]):
                reached[place] = _later(reached[place], now)
        return positions._replace(reached=tuple(reached))


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)
