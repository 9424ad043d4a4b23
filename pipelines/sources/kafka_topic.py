"""A Kafka topic and how to reach it, by librdkafka: what a source reads and a sink writes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

from private_topk.pipelines.release.identity import not_in_fingerprint
from private_topk.transforms.errors import InvalidArgument, Unreachable, install_extra, verbatim

_T = TypeVar("_T")

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
SETTLED = 30.0  # within which another broker has taken over a partition
PATIENCE = 30.0  # for which a reader tolerates errors
WAIT = 0.2  # for messages
ANSWERED = 5.0  # within which a broker answers a request
_HEARD, _PAUSE = 1.0, 0.1  # within which a broker learns of a new topic, and between two tries
_LAG = 30.0  # for which a broker may hold a message back, by its default

BATCH = 20_000
"""Messages that are read at a time."""


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
        asked = admin.describe_topics(TopicCollection([self.topic]), request_timeout=ANSWERED)
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
            metadata = consumer.list_topics(self.topic, timeout=ANSWERED).topics[self.topic]
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
            entries = admin.describe_configs([resource])[resource].result(ANSWERED)
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


def patiently(topic: KafkaTopic, ask: Callable[[], _T]) -> _T:
    """The answer of a broker that may just be taking over a partition, with retries for half a minute.

    Raises:
        Unreachable: of the field `input`, if there is no answer by then.
    """
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + SETTLED
    while True:
        try:
            return ask()
        except KafkaException as error:
            if time.monotonic() > deadline:
                rule = f"{topic.uri} does not answer: {verbatim(error.args[0].str())}"
                raise Unreachable("input", rule) from None
        time.sleep(_PAUSE)
