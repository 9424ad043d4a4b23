"""A Kafka broker on this machine, for trying and testing: one process in KRaft mode, listening on loopback only.

    python -m benchmarks.servers.kafka                     # `make kafka`: with a topic `plays`, until Ctrl-C or SIGTERM
    python -m benchmarks.servers.kafka --send rows.jsonl   # each line a message of it

The jars come from Maven's repository (some 60 MB, once) and need Java 17.
"""

from __future__ import annotations

import argparse
import base64
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.servers.parts import made_once
from private_topk.runners import cache_folder, say
from private_topk.runners.child import ending_with_us
from private_topk.runners.flink import JVM_PROPERTIES
from private_topk.runners.portable import reachable

VERSION = "3.9.1"

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_PROJECT = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>private-topk</groupId><artifactId>broker</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
</dependency></dependencies></project>"""
_PATIENCE = 60.0


class Broker:
    """One broker that is its own controller. Topics and messages are kept in its folder.

    Args:
        patience: seconds until it must answer.
    """

    def __init__(self, folder: Path, port: int, heap: str = "384m", patience: float = _PATIENCE) -> None:
        self.folder, self.port, self._heap, self._patience = folder.resolve(), port, heap, patience
        self.process: subprocess.Popen | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start and wait until it answers. Raises RuntimeError if it does not, ValueError without jars or Java."""
        jars()
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "server.properties"
        if not settings.exists():
            settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
            cluster = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
            self._run("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(settings)).wait(
                _PATIENCE
            )
        self.process = self._run("kafka.Kafka", str(settings))
        deadline = time.monotonic() + self._patience
        while not reachable(self.address, 1):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                said = (self.folder / "broker.log").read_text("utf-8", "replace").strip()
                raise RuntimeError(f"the broker did not start: {said[-500:]}")
            time.sleep(0.2)

    def wait(self) -> None:
        """Wait until the process has ended."""
        if self.process is not None:
            self.process.wait()

    def stop(self) -> None:
        """End the process that was started."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _settings(self) -> dict[str, object]:
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self.port + 1}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self.port + 1}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.folder / "data",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "auto.create.topics.enable": "false",
            "log.cleaner.backoff.ms": 500,  # a topic that is to be compacted is, at once
        }

    def _run(self, *command: str) -> subprocess.Popen:
        java = ["java", *JVM_PROPERTIES, f"-Xmx{self._heap}", "-cp", f"{jars()}/*", *command]
        with open(self.folder / "broker.log", "ab") as log:
            return subprocess.Popen(
                ending_with_us(java), stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )


def jars() -> Path:
    """The folder of the broker's jars, fetched with Maven unless it stands. Raises ValueError if it cannot be."""
    home = cache_folder() / f"kafka-{VERSION}"
    for program in ("java",) if home.exists() else ("java", "mvn"):
        if shutil.which(program) is None:
            raise ValueError(f"a Kafka broker needs {program}: on Debian `apt install default-jre-headless maven`")
    return made_once(home, _fetch)


def _fetch(folder: Path) -> Path:
    say(f"fetching Kafka {VERSION} (60 MB, once)")
    (folder / "pom.xml").write_text(_PROJECT)
    command = ["mvn", "--quiet", "--batch-mode", _COPY, f"-DoutputDirectory={folder}/jars"]
    if subprocess.run(command, cwd=folder, capture_output=True).returncode:
        raise ValueError(f"Maven could not fetch org.apache.kafka:kafka_2.13:{VERSION}")
    return folder / "jars"


def create_topic(address: str, topic: str, partitions: int = 1, **settings: str) -> None:
    """Make a topic, unless it is there."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})  # kept until the answer has come
    try:
        admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def send(address: str, topic: str, messages: Iterable[tuple[bytes, int]]) -> None:
    """Send messages, each to its partition, in their order. Returns when the broker has them all."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20})
    for message, partition in messages:
        producer.produce(topic, message, partition=partition)
        producer.poll(0)
    if producer.flush(30):
        raise RuntimeError(f"{address} did not take every message of {topic}")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.servers.kafka",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, default=Path("out/kafka"))
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--topic", default="plays")
    parser.add_argument("--send", metavar="FILE", type=Path, help="only send its lines to the broker that is up")
    arguments = parser.parse_args(argv)
    broker = Broker(arguments.folder, arguments.port)
    place = f"kafka://{broker.address}/{arguments.topic}"
    if arguments.send:
        lines = arguments.send.read_bytes().splitlines()
        send(broker.address, arguments.topic, ((line, 0) for line in lines))
        print(f"{len(lines):,} messages sent to {place}")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # by way of the `finally` below
    if reachable(broker.address, 1):
        sys.exit(f"port {arguments.port} is taken: give another --port")
    try:
        jars()
        say(f"starting a Kafka broker for trials, on {broker.address} of this machine alone")
        broker.start()
        # A report by the clock of the log needs messages that the broker has stamped.
        create_topic(broker.address, arguments.topic, 1, **{"message.timestamp.type": "LogAppendTime"})
        print(
            f"Kafka is ready, with the topic {arguments.topic}, until Ctrl-C. Read it with --input {place}. Logs and "
            f"messages are in {arguments.folder}",
            flush=True,
        )
        broker.wait()
        sys.exit(f"the broker has ended: its log is in {arguments.folder}")
    except KeyboardInterrupt:
        pass
    except (RuntimeError, ValueError) as error:  # a port that is taken, or what is missing and the way to get it
        sys.exit(str(error))
    finally:
        broker.stop()


if __name__ == "__main__":
    main()
