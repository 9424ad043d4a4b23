"""The log of a Kafka topic as it was at the launch, and what must hold of it for a repetition to read the same rows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from private_topk.pipelines.release.input_record import Entry
from private_topk.pipelines.sources.kafka_topic import PATIENCE, SETTLED, WAIT, KafkaTopic, TopicFacts, patiently
from private_topk.runners import say
from private_topk.transforms.errors import ANOTHER_RELEASE, InvalidArgument, Unreachable, of_another_release

_KEPT = 60.0  # seconds for which at least every log keeps its messages


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
        low, high = observer.get_watermark_offsets(TopicPartition(topic.topic, partition), timeout=PATIENCE)
        if since is None:
            return Extent(low, high, low)
        position = observer.offsets_for_times([TopicPartition(topic.topic, partition, since)], timeout=PATIENCE)[0]
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
    deadline = time.monotonic() + SETTLED
    while len(found) < len(begin):
        for message in observer.consume(len(begin), WAIT):
            if not message.error():
                found.setdefault(message.partition(), message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                found.setdefault(message.partition(), None)
            elif message.error().code() == KafkaError._AUTO_OFFSET_RESET:
                raise lost(topic)
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
            f"since {iso(since or 0)} is taken from --kafka-start"
        )


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


def check_stamped(topic: KafkaTopic, messages: Iterable[Any], field: str = "") -> None:
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


def arrivals(topic: KafkaTopic, messages: Sequence[Any], after: int, field: str = "") -> np.ndarray:
    """When messages of a partition arrived, microseconds since 1970 UTC: at their stamps, or when the latest before
    them did (`after`: before all of these) if that is later.

    Raises InvalidArgument where the broker has not stamped them.
    """
    check_stamped(topic, messages, field)
    stamps = [message.timestamp() for message in messages]
    return np.maximum.accumulate([after, *(stamp * 1000 for _, stamp in stamps)])[1:]


def another(topic: KafkaTopic) -> InvalidArgument:
    return of_another_release(
        "",
        f"{topic.uri} was deleted and created again since this release began, so what is published "
        "from now on would be of other rows",
    )


def not_joined(topic: KafkaTopic) -> InvalidArgument:
    return of_another_release(
        "",
        f"{topic.uri} no longer gives the rows that this release has read from it: messages were deleted or compacted "
        "away, or the topic was deleted and created again since this release began, so what is published from now on "
        "would be of other rows",
    )


def lost(topic: KafkaTopic) -> InvalidArgument:
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
            raise another(topic)
        if entry.get("since", since) != since:
            began = "earliest" if entry["since"] is None else iso(entry["since"])
            rule = f"must be {began}, with which this release began"
            raise InvalidArgument("kafka_start", rule, f"give it again, or {ANOTHER_RELEASE}")


def iso(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")
