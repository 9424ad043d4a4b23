"""Rankings as messages: one JSON object for each, to Kafka or Pub/Sub."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.run_state import RunState
from private_topk.pipelines.sinks.sink import Sink, refuse_read
from private_topk.pipelines.sources.kafka_topic import KafkaTopic
from private_topk.pipelines.sources.pubsub import check_google, resource
from private_topk.transforms.errors import crosses
from private_topk.transforms.release import Ranking, Release
from private_topk.transforms.windows import Period, utc_text

_PATIENCE = 5.0
_AT_ONCE = 1000
_SENT_WITHIN = 65.0
_LONGEST_ATTRIBUTE = 1024  # bytes that Pub/Sub takes


def message_of(ranking: Ranking, release_id: str) -> bytes:
    """A ranking as JSON: its window's bounds in UTC, its group where there are groups, and the items in order of rank
    (or a set, in public order). A group of several columns are as many fields, and an item an object of them.
    """
    names = ranking.item_columns
    start, end = (at and utc_text(at) for at in (ranking.window.start, ranking.window.end))
    message = {
        "window_start": start,
        "window_end": end,
        **ranking.group_in_columns(),
        "answer": ranking.answer,
        "items": [dict(zip(names, item, strict=True)) if len(names) > 1 else item for item in ranking.items],
        **({} if ranking.noisy_weights is None else {"noisy_weights": list(ranking.noisy_weights)}),
        "noisy_counts": ranking.noisy_counts and list(ranking.noisy_counts),
        "noise_stddev": ranking.noise and ranking.noise.stddev,
        "noise_95": ranking.noise and ranking.noise.within_95,
        "k": ranking.k,
        "release_id": release_id,
    }
    return json.dumps(message, ensure_ascii=False).encode()


@dataclass(frozen=True)
class ToKafka(Sink):
    """One message for a ranking, with the label of its window as the key, and that of its group behind a bar: of
    several columns their JSON array. A repeated bundle sends the same message again.
    """

    topic: KafkaTopic

    @property
    def uri(self) -> str:  # type: ignore[override] # set by what it is made of
        return self.topic.uri

    def check(self, period: Period | None, inputs: Sequence[str], release: Release) -> None:
        refuse_read(self.uri, inputs, "topic")
        self.topic.partitions("output")

    def write(
        self, manifest: Manifest, release: Release, live: RunState | None = None, period: Period | None = None
    ) -> beam.PTransform:
        return beam.ParDo(_SendDoFn(self.topic, release.id)).with_output_types(str)

    def following(self, period: Period, release: Release) -> Callable[[], dict[str, float]]:
        return _Follower(self.topic, release.id).published


@dataclass(frozen=True)
class ToPubSub(Sink):
    """One message for a ranking, with the attribute `window`, and `group` where there is one of at most 1,024 bytes, as
    Pub/Sub bounds them. It may deliver a message more than once.

    Args:
        uri: pubsub://projects/P/topics/T.
    """

    uri: str

    def __post_init__(self) -> None:
        resource(self.uri, "topics", "output")

    def check(self, period: Period | None, inputs: Sequence[str], release: Release) -> None:
        refuse_read(self.uri, inputs, "topic")
        check_google(self.uri, "output")

    def write(
        self, manifest: Manifest, release: Release, live: RunState | None = None, period: Period | None = None
    ) -> beam.PTransform:
        sending = _PublishDoFn(resource(self.uri, "topics", "output"), release.id)
        return beam.ParDo(sending).with_output_types(str)


class _Follower:
    """Reads back the rankings that a release sends to a topic from now on."""

    def __init__(self, topic: KafkaTopic, release_id: str) -> None:
        from confluent_kafka import TopicPartition

        self._consumer, self._release_id = topic.consumer(), release_id
        places = [TopicPartition(topic.topic, partition) for partition in topic.partitions("output")]
        ends = [self._consumer.get_watermark_offsets(uri, timeout=_PATIENCE)[1] for uri in places]
        self._consumer.assign(
            [TopicPartition(uri.topic, uri.partition, end) for uri, end in zip(places, ends, strict=True)]
        )

    def published(self) -> dict[str, float]:
        """The labels of rankings whose messages have come since the last call, with the broker's timestamps."""
        published = {}
        for message in self._consumer.consume(_AT_ONCE, 0.1):
            if message.error() is None and self._is_ours(message.value()):
                published[(message.key() or b"").decode(errors="replace")] = message.timestamp()[1] / 1000
        return published

    def _is_ours(self, value: bytes | None) -> bool:
        try:
            content = json.loads(value or b"")
        except ValueError:
            return False
        return isinstance(content, dict) and content.get("release_id") == self._release_id


@crosses
class _SendDoFn(beam.DoFn):
    """Raises KafkaException, so that the bundle is tried again, unless the broker has taken every message."""

    def __init__(self, topic: KafkaTopic, release_id: str) -> None:
        self._topic, self._release_id = topic, release_id
        self._producer: Any = None

    def start_bundle(self) -> None:
        self._failed: list[Any] = []

    def process(self, ranking: Ranking) -> Iterator[str]:
        from confluent_kafka import Producer

        if self._producer is None:
            self._producer = Producer(self._topic.client(**{"enable.idempotence": True, "message.timeout.ms": 60_000}))
        self._send(message_of(ranking, self._release_id), ranking.label())
        yield ranking.label()

    def _send(self, message: bytes, key: str) -> None:
        """Hand a message to the client, whose queue is bounded, and may fill up with thousands of groups."""
        deadline = time.monotonic() + _SENT_WITHIN
        while True:
            try:
                self._producer.produce(self._topic.topic, message, key, on_delivery=self._note)
            except BufferError:
                if time.monotonic() > deadline:
                    raise TimeoutError("the broker did not take a message in time") from None
                self._producer.poll(1.0)
            else:
                self._producer.poll(0)
                return

    def finish_bundle(self) -> None:
        from confluent_kafka import KafkaException

        if self._producer is not None and self._producer.flush(_SENT_WITHIN):
            raise TimeoutError("the broker did not take a message in time")
        if self._failed:
            raise KafkaException(self._failed[0])

    def _note(self, error: Any, message: Any) -> None:  # noqa: ANN401 - the client's own
        if error is not None:
            self._failed.append(error)


@crosses
class _PublishDoFn(beam.DoFn):
    """Publishes with Google's client instead of Beam's own sink, which does not report when a message is delivered.

    Raises, so that the bundle is tried again, unless Pub/Sub has taken every message.
    """

    def __init__(self, topic: str, release_id: str) -> None:
        self._topic, self._release_id = topic, release_id
        self._publisher: Any = None

    def start_bundle(self) -> None:
        self._sent: list[Any] = []

    def process(self, ranking: Ranking) -> Iterator[str]:
        from google.cloud.pubsub_v1 import PublisherClient

        if self._publisher is None:
            self._publisher = PublisherClient()
        message = message_of(ranking, self._release_id)
        self._sent.append(self._publisher.publish(self._topic, message, **attributes_of(ranking)))
        yield ranking.label()

    def finish_bundle(self) -> None:
        for sent in self._sent:
            sent.result(_SENT_WITHIN)


def attributes_of(ranking: Ranking) -> dict[str, str]:
    """The attributes of a message, by which Pub/Sub subscriptions may filter. A group of several columns is their JSON
    array.
    """
    group = ranking.group_label
    named = group is not None and len(group.encode()) <= _LONGEST_ATTRIBUTE
    return {"window": ranking.window.label(), **({"group": str(group)} if named else {})}
