"""A report over made-up rows, as a batch and as a stream, for what is tried on Flink by `flink_kills` and others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

PARTITIONS, WINDOWS = 4, 24
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
LOAD = "import time\nend = time.time() + 3600\nwhile time.time() < end: pass"
"""A process that keeps one core busy, for an hour at most."""


class Report:
    """Rows in 24 windows of an hour, in the order of time, and what must be published of them.

    Args:
        folder: where everything is written.
    """

    def __init__(self, folder: Path, rows: int = 7_000) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        state = np.random.Generator(np.random.PCG64(1))
        users, items = state.integers(0, 1_000, rows), np.minimum(state.zipf(1.3, rows), 60) - 1
        self.users = users.tolist()
        self.rows = [
            _row(f"u{user}", f"item {item}", START + timedelta(hours=WINDOWS * number / rows))
            for number, (user, item) in enumerate(zip(self.users, items.tolist(), strict=True))
        ]
        (folder / "items.txt").write_text("".join(f"item {n}\n" for n in range(60)))
        (folder / "key").write_text("a key of the benchmarks, which is no secret\n")
        (folder / "rows.jsonl").write_text("".join(row + "\n" for row in self.rows))
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / "rows.jsonl").write_text("".join(row + "\n" for row in [*self.rows, _end()]))
        self.expected = self._batch()

    def question(self) -> list[str]:
        return [
            "--domain", f"{self.folder}/items.txt", "--mechanism", "joint", "--k", "5", "--epsilon", "1",
            "--release-key", f"file:{self.folder}/key", "--release-id", "flink", "--overwrite",
            "--window", "1h", "--from", START.isoformat(), "--to", (START + timedelta(hours=WINDOWS)).isoformat(),
        ]  # fmt: skip

    def batch_command(self, output: Path, *more: str) -> list[str]:
        place = ["--input", f"{self.folder}/rows.jsonl", "--output", str(output)]
        return _command("run", "--quiet", *place, *self.question(), *more)

    def stream_command(self, output: Path, *more: str, source: str = "") -> list[str]:
        """Reading a topic, or the folder with a file of all rows."""
        place = ["--input", source or f"{self.folder}/in/*.jsonl", "--clock", "event", "--output", str(output)]
        return _command("stream", *place, "--output-format", "jsonl", *self.question(), *more)

    def _batch(self) -> bytes:
        output = self.folder / "expected.jsonl"
        subprocess.run(self.batch_command(output), check=True, stderr=subprocess.DEVNULL)
        return output.read_bytes()

    def send(self, address: str, topic: str, seconds: float) -> None:
        """Send all rows to a topic, evenly over some seconds, and a row after the horizon to each partition."""
        settings = {"bootstrap.servers": address, "linger.ms": 20, "message.timeout.ms": 120_000}
        # In order also while a broker is away: a row that overtook another would be late for its window.
        producer = Producer({**settings, "enable.idempotence": True})
        began = time.monotonic()
        for number, (user, row) in enumerate(zip(self.users, self.rows, strict=True)):
            producer.produce(topic, row, partition=user % PARTITIONS)
            if number % 50 == 0:
                producer.poll(0)
                time.sleep(max(0.0, began + seconds * number / len(self.rows) - time.monotonic()))
        producer.flush(120)
        for partition in range(PARTITIONS):
            producer.produce(topic, _end(), partition=partition)
        producer.flush(120)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "private_topk.pipelines.cli", *words]


def _row(user: str, item: str, at: datetime) -> str:
    return json.dumps({"user": user, "item": item, "time": at.isoformat()})


def _end() -> str:
    return _row("nobody", "item 0", START + timedelta(hours=WINDOWS + 2))


@contextmanager
def session(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen]:
    """A process in a session of its own, ended with its children if it has not ended by itself."""
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield process
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many cores kept busy meanwhile."""
    started = [subprocess.Popen([sys.executable, "-c", LOAD]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def await_(condition: Callable[[], bool], patience: float, what: str) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.1)


class Versions:
    """Every content that was seen in the files of a folder: a window must be published in one version only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: dict[str, set[bytes]] = {}

    def look(self) -> None:
        for path in self.folder.glob("*.jsonl"):
            try:
                self.seen.setdefault(path.name, set()).add(path.read_bytes())
            except FileNotFoundError:
                pass

    def verdict(self, expected: bytes) -> str:
        """`equal`, or what is wrong."""
        self.look()
        twice = sum(len(versions) > 1 for versions in self.seen.values())
        if twice:
            return f"{twice} windows in two versions"
        if len(self.seen) != WINDOWS:
            return f"{len(self.seen)} of {WINDOWS} windows"
        found = b"".join(path.read_bytes() for path in sorted(self.folder.glob("*.jsonl")))
        return "equal" if found == expected else "other rankings"
