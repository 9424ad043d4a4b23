"""A group of partitions of a topic, read turn by turn, and where each of them truly ends."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

from private_topk.pipelines.sources.kafka_topic import KafkaTopic, patiently
from private_topk.transforms.errors import Refusal

__all__ = ["Group", "GroupReader", "first_offset"]

Group = tuple[int, ...]

_BATCH = 20_000
_WAIT = 0.2
_PATIENCE = 30.0
_GONE = ("and the same release would be another answer: keep messages for longer than they wait to be read, and take "
         "a new {release_id}")  # fmt: skip


class GroupReader:
    """Reads what is committed, and asks about all that is there: an open transaction hides the end of a log."""

    def __init__(self, topic: KafkaTopic, group: Group, known: int) -> None:
        self._topic, self._group, self._known = topic, group, known
        self._consumer, self._observer = topic.consumer(), topic.observer()
        self._places: tuple[int, ...] = ()
        self._ends: dict[int, int] = {}
        self._troubled: float | None = None

    def close(self) -> None:
        self._consumer.close()
        self._observer.close()

    def read(self, offsets: tuple[int, ...]) -> dict[int, list[Any]]:
        """Messages from the offsets on, by partition; none if there are none at present.

        Raises:
            Refusal: messages before the offsets are gone.
            KafkaException: nothing came for half a minute but errors, so that the runner tries the turn again.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        if self._places != offsets:
            places = list(zip(self._group, offsets, strict=True))
            self._consumer.assign([TopicPartition(self._topic.topic, part, offset) for part, offset in places])
            self._places, self._ends = offsets, dict(places)
        found = defaultdict(list)
        for message in self._consumer.consume(_BATCH, _WAIT):
            if not message.error():
                found[message.partition()].append(message)
                self._troubled = None
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._ends[message.partition()] = message.offset()
                self._troubled = None
            elif message.error().code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION):
                raise Refusal("", f"{self._topic.place} has lost messages before they were read, by its retention or "
                              "by a broker that took over with less", _GONE)  # fmt: skip
            elif self._gives_up():
                raise KafkaException(message.error())
        return dict(found)

    def _gives_up(self) -> bool:
        """Whether errors have gone on for too long: a partition is without a leader while another takes over."""
        now = time.monotonic()
        self._troubled = now if self._troubled is None else self._troubled
        return now - self._troubled > _PATIENCE

    def moved(self, offsets: tuple[int, ...]) -> None:
        """The messages before these offsets were taken."""
        self._places = offsets

    def at_the_end(self, partition: int, offset: int) -> bool:
        """Whether nothing is in the log from an offset on, committed or not. False where the broker does not say."""
        from confluent_kafka import KafkaException, TopicPartition

        try:
            _, end = self._observer.get_watermark_offsets(TopicPartition(self._topic.topic, partition), timeout=5)
        except KafkaException:
            return False
        return end <= max(offset, self._ends.get(partition, offset))

    def check_partitions(self) -> None:
        """Raise Refusal if the topic has more partitions than at the launch, KafkaException if nobody says."""
        found = self._observer.list_topics(self._topic.topic, timeout=_PATIENCE).topics[self._topic.topic]
        if len(found.partitions) > self._known:
            raise Refusal("", f"{self._topic.place} was given more partitions, which are not read",
                          "start again with the same arguments: then all of them are")  # fmt: skip


def first_offset(observer: Any, topic: KafkaTopic, partition: int, since: int | None, start: int) -> int:  # noqa: ANN401
    """Where a partition is entered: at the first message stamped at `since` or later, or with None at the first.

    Args:
        since, start: milliseconds since 1970 UTC; `start` is the horizon's.

    Raises:
        Refusal: what the log's retention has deleted may be of the horizon, or no broker says where the log begins.
    """
    return patiently(topic, lambda: _entered(observer, topic, partition, since, start))


def _entered(observer: Any, topic: KafkaTopic, partition: int, since: int | None, start: int) -> int:  # noqa: ANN401
    from confluent_kafka import KafkaException, TopicPartition

    def at(moment: int) -> int:
        found = observer.offsets_for_times([TopicPartition(topic.topic, partition, moment)], timeout=_PATIENCE)[0]
        if found.error:  # which is not "nothing since then": that would enter the log at its end
            raise KafkaException(found.error)
        return found.offset if found.offset >= 0 else high

    low, high = observer.get_watermark_offsets(TopicPartition(topic.topic, partition), timeout=_PATIENCE)
    wanted = max(start, since) if since is not None else start
    # Where nothing is left, nobody can tell what was stamped when; but retention takes longer than a minute.
    if 0 < low == at(wanted) and not (low == high and wanted > (time.time() - 60) * 1000):
        raise Refusal("input", f"{topic.place} has deleted messages which may be of the horizon: its first one left "
                      "was stamped after {period_from}", "begin later, or give {kafka_start}, a time from which on "
                      "all are there")  # fmt: skip
    return low if since is None else at(since)
