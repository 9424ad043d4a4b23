"""A topic of Kafka: its address, its client, and what the broker says of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from private_topk.pipelines.identity import unasked
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["KafkaTopic"]

_ADDRESS = re.compile(r"kafka://([\w.\-\[\]:]+:\d+(?:,[\w.\-\[\]:]+:\d+)*)/([\w.\-]{1,249})")
_OURS = {
    "group.id": "private-topk",  # asked for by the client; positions are kept by Beam, not by the broker
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": 16384,
    "fetch.message.max.bytes": 4 << 20,
}


@dataclass(frozen=True)
class KafkaTopic:
    """A topic and how to reach it.

    Args:
        options: of librdkafka, such as security.protocol; they may hold a password, so they are not shown.
    """

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
                rule = f"must leave {verbatim(option)} alone, which says what is read"
                raise Refusal("kafka_option", rule)
        return cls(found[1], found[2], tuple(options))

    @property
    def place(self) -> str:
        return f"kafka://{self.servers}/{self.topic}"

    def client(self, **more: Any) -> dict[str, Any]:  # noqa: ANN401
        return {**dict(self.options), "bootstrap.servers": self.servers, **more}

    def consumer(self, **more: Any) -> Any:  # noqa: ANN401 - the client is loaded when it is needed
        """A consumer of what is committed, that is told where a partition ends."""
        from confluent_kafka import Consumer

        return Consumer(self.client(**{**_OURS, **more}))

    def partitions(self, name: str) -> list[int]:
        """The partitions of the topic. Raises Refusal of the field `name` if it cannot be reached or does not exist."""
        try:
            from confluent_kafka import KafkaException
        except ImportError:
            raise Refusal(name, "kafka:// needs the client: pip install 'private-topk[kafka]'") from None
        try:
            consumer = self.consumer()
            try:
                found = consumer.list_topics(self.topic, timeout=5).topics[self.topic]
            finally:
                consumer.close()
        except KafkaException as error:
            raise Refusal(name, f"kafka://{self.servers} cannot be reached: {error.args[0].str()}") from None
        if found.error is not None or not found.partitions:
            raise Refusal(name, f"kafka://{self.servers} has no topic {self.topic}: create it first")
        return sorted(found.partitions)
