"""Rows as messages of a topic, and the command line reading them in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.servers.kafka import create_topic, send
from private_topk.pipelines.sources.kafka_topic import KafkaTopic, patiently
from tests.pipelines.support import command
from tests.runners.servers import running

Row = tuple[str, str, str]
HORIZON = ("--from", "2024-09-01", "--to", "2026-09-01")
AFTERWARDS = "2026-09-15T00:00:00Z"


class Topics:
    """The topics of a broker."""

    def __init__(self, address: str) -> None:
        self.address = address

    def create(self, topic: str, partitions: int, **settings: str) -> str:
        """Make a topic; its place on the command line."""
        create_topic(self.address, topic, partitions, **settings)
        place = KafkaTopic(self.address, topic)
        observer = place.observer()
        for partition in range(partitions):  # the controller has answered; its broker follows in a moment
            asked = partial(observer.get_watermark_offsets, TopicPartition(topic, partition), timeout=10)
            patiently(place, asked)
        observer.close()
        return f"kafka://{self.address}/{topic}"

    def recreate(self, topic: str, partitions: int, **settings: str) -> None:
        """Delete a topic, and make another one of that name."""
        place = KafkaTopic(self.address, topic)
        before = patiently(place, place.id)
        admin = AdminClient({"bootstrap.servers": self.address})  # kept until the answer has come
        admin.delete_topics([topic])[topic].result(30)
        deadline = time.monotonic() + 60
        while True:  # a broker forgets the old one a little after the controller
            assert time.monotonic() < deadline, "the topic is still the old one"
            self.create(topic, partitions, **settings)
            if patiently(place, place.id) != before:
                return
            time.sleep(0.1)

    def send(self, topic: str, partitions: int, messages: Sequence[tuple[str, bytes]]) -> None:
        """Send messages by a key, each key to its partition, in their order."""
        send(self.address, topic, ((message, zlib.crc32(key.encode()) % partitions) for key, message in messages))

    def end(self, topic: str, partitions: int, message: bytes) -> None:
        """A last message in every partition: a row after the horizon, which closes its windows."""
        send(self.address, topic, ((message, partition) for partition in range(partitions)))

    def messages(self, topic: str, count: int) -> list[tuple[bytes, bytes]]:
        """Key and value of so many messages."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "tests", "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        found: list[Any] = []
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            found += [message for message in consumer.consume(count, 0.5) if not message.error()]
        consumer.close()
        return [(message.key(), message.value()) for message in found]


class Commits:
    """Rows with times, their public list of items, and the batch report that every stream of them must equal."""

    def __init__(self, folder: Path, rows: Sequence[Row]) -> None:
        self.folder, self.rows = folder, rows
        (folder / "items.txt").write_text("\n".join(sorted({item for _, item, _ in rows})) + "\n")
        (folder / "key").write_text("a key of the tests, which is no secret\n")
        (folder / "rows.jsonl").write_bytes(b"".join(as_json(row) + b"\n" for row in rows))

    def question(self, *window: str) -> list[str]:
        """A question for few user shards: Beam measures the size of every state, for milliseconds each."""
        return [
            *(
                f"--domain {self.folder}/items.txt --mechanism joint --k 5 --epsilon 1 --release-key "
                f"file:{self.folder}/key --release-id streams --shards 2"
            ).split(),
            *(window or ("--window", "month", "--time-zone", "Europe/Berlin", *HORIZON)),
        ]

    def batch(self, output: Path, *question: str) -> bytes:
        """The bytes of the ranking file of all windows, by `run` on the direct runner."""
        rows, asked = f"{self.folder}/rows.jsonl", question or self.question()
        done = command("run", "--quiet", "--input", rows, "--output", output, *asked)
        assert done.status == 0, done.err
        return output.read_bytes()


def as_json(row: Row) -> bytes:
    return json.dumps(dict(zip(("user", "item", "time"), row, strict=True))).encode()


def closing() -> bytes:
    return as_json(("nobody", "nothing", AFTERWARDS))


def streaming(arguments: Sequence[str], log: Path) -> AbstractContextManager[subprocess.Popen]:
    """`private-topk stream` in a process of its own, ended with its children if it has not ended by itself."""
    return running([sys.executable, "-m", "private_topk", "stream", *arguments], log)


def wait_for(condition: Callable[[], object], process: subprocess.Popen, log: Path, patience: float = 60) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"nothing came of it:\n{log.read_text()}"
        time.sleep(0.1)


def finished(process: subprocess.Popen, log: Path, patience: float = 90) -> str:
    assert process.wait(patience) == 0, log.read_text()
    return log.read_text()


def told(said: str, event: str) -> list[dict[str, Any]]:
    """The facts of every line that tells of an event."""
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("event") == event]


def published(folder: Path) -> dict[str, bytes]:
    """The ranking files of a folder by name, in the order of their windows."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.jsonl"))}
