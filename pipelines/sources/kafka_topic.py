"""A topic of Kafka: its address, its client, and what the broker says of it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

from private_topk.pipelines.identity import unasked
from private_topk.transforms.errors import Refusal, verbatim

__all__ = ["KafkaTopic", "TopicFacts", "patiently"]

_T = TypeVar("_T")

_ADDRESS = re.compile(r"kafka://([\w.\-\[\]:]+:\d+(?:,[\w.\-\[\]:]+:\d+)*)/([\w.\-]{1,249})")
_SEVERE = 2
_OURS = {
    "group.id": "private-topk",  # asked for by the client; positions are kept by Beam, not by the broker
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": 16384,
    "fetch.message.max.bytes": 4 << 20,
}
_PATIENCE = 5.0
_SETTLED = 30.0
_HEARD, _PAUSE = 1.0, 0.1
_LAG = 30_000.0  # milliseconds; the broker's own default


class TopicFacts(NamedTuple):
    """What decides whether a topic can be read twice with the same result.

    Args:
        partitions: their numbers.
        replicas: of the partition that has most.
        stamps: LogAppendTime or CreateTime; empty where the broker does not say, as for the next one.
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
        options: of librdkafka, such as security.protocol; they may hold a password, so they are not shown.
    """

    identity_tag: ClassVar[str] = "kafka-topic"

    servers: str
    topic: str
    options: tuple[tuple[str, str], ...] = field(
        default=(), repr=False, metadata=unasked("how the broker is reached; what decides which rows come is set here")
    )

    @classmethod
    def of(cls, place: str, options: Sequence[tuple[str, str]], name: str) -> KafkaTopic:
        """The topic of an address. Raises Refusal of the field `name` or of `kafka_option`."""
        found = _ADDRESS.fullmatch(place)
        if not found:
            rule = f"must be kafka://HOST:PORT/TOPIC, with more servers after commas, got {verbatim(place)}"
            raise Refusal(name, rule)
        for option, _ in options:
            if option in _OURS or option in ("bootstrap.servers", "metadata.broker.list"):
                raise Refusal("kafka_option", f"must leave {verbatim(option)} alone, which says what is read")
        return cls(found[1], found[2], tuple(options))

    @property
    def place(self) -> str:
        return f"kafka://{self.servers}/{self.topic}"

    def client(self, **more: Any) -> dict[str, Any]:  # noqa: ANN401
        quiet = {"log_level": _SEVERE}  # what went wrong is said once, by us
        return {**quiet, **dict(self.options), "bootstrap.servers": self.servers, **more}

    def consumer(self, **more: Any) -> Any:  # noqa: ANN401 - the client is loaded when it is needed
        """A consumer of what is committed, that is told where a partition ends."""
        from confluent_kafka import Consumer

        return Consumer(self.client(**{**_OURS, **more}))

    def observer(self) -> Any:  # noqa: ANN401
        """A consumer that is told of all messages, those of open transactions too, to ask where a log truly ends."""
        return self.consumer(**{"isolation.level": "read_uncommitted"})

    def partitions(self, name: str) -> list[int]:
        """The partitions of the topic. Raises Refusal of the field `name` if it cannot be reached or does not exist."""
        return sorted(self._metadata(name).partitions)

    def facts(self, name: str) -> TopicFacts:
        """What the broker says of the topic. Raises Refusal of the field `name`."""
        partitions = self._metadata(name).partitions
        topic, brokers = self._settings("topic", self.topic), partitions[min(partitions)].replicas
        broker = self._settings("broker", str(brokers[0])) if brokers else {}
        return TopicFacts(
            tuple(sorted(partitions)),
            max(len(partition.replicas) for partition in partitions.values()),
            topic.get("message.timestamp.type", ""),
            topic.get("cleanup.policy", ""),
            float(broker.get("replica.lag.time.max.ms") or _LAG) / 1000,
        )

    def _metadata(self, name: str) -> Any:  # noqa: ANN401
        try:
            from confluent_kafka import KafkaException
        except ImportError:
            raise Refusal(name, "kafka:// needs the client: pip install 'private-topk[kafka]'") from None
        try:
            consumer = self.consumer()
            try:
                found = self._described(consumer)
            finally:
                consumer.close()
        except KafkaException as error:
            rule = f"kafka://{self.servers} cannot be reached: {verbatim(error.args[0].str())}"
            raise Refusal(name, rule) from None
        if found.error is not None or not found.partitions:
            raise Refusal(name, f"kafka://{self.servers} has no topic {self.topic}: create it first")
        return found

    def _described(self, consumer: Any) -> Any:  # noqa: ANN401
        """A broker hears a little later than the controller that a topic was made."""
        deadline = time.monotonic() + _HEARD
        while True:
            found = consumer.list_topics(self.topic, timeout=_PATIENCE).topics[self.topic]
            if found.partitions and found.error is None or time.monotonic() > deadline:
                return found
            time.sleep(_PAUSE)

    def _settings(self, kind: str, name: str) -> dict[str, str]:
        """Settings of a topic or broker; none where the broker does not let this client see them."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, ConfigResource

        resource = ConfigResource(ConfigResource.Type[kind.upper()], name)
        admin = AdminClient(self.client())
        try:
            found = admin.describe_configs([resource])[resource].result(_PATIENCE)
        except (KafkaException, TimeoutError):
            return {}
        return {name: entry.value for name, entry in found.items() if entry.value is not None}


def patiently(topic: KafkaTopic, ask: Callable[[], _T]) -> _T:
    """The answer of a broker that may just be taking over a partition: asked again for half a minute.

    Raises:
        Refusal: of the field `input`, if none has come by then.
    """
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + _SETTLED
    while True:
        try:
            return ask()
        except KafkaException as error:
            if time.monotonic() > deadline:
                rule = f"{topic.place} does not answer: {verbatim(error.args[0].str())}"
                raise Refusal("input", rule) from None
        time.sleep(_PAUSE)
