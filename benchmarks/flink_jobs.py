"""A report over made-up rows, as a batch and as a stream, for what is tried on Flink by `flink_kills` and others."""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

from benchmarks.servers.flink import Cluster, job_server
from private_topk.runners.portable import reachable

PARTITIONS, WINDOWS = 4, 24
START = datetime(2026, 1, 1, tzinfo=UTC)
LOAD = "import time\nend = time.time() + 3600\nwhile time.time() < end: pass"
"""A process that keeps one core busy, for an hour at most."""


class Report:
    """Rows in 24 windows of an hour, in the order of time, and what must be published of them.

    Args:
        folder: where everything is written; what an earlier process has left there of the same rows is taken over.
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
        text, expected = "".join(row + "\n" for row in self.rows), folder / "expected.jsonl"
        known = expected.exists() and (folder / "rows.jsonl").read_text() == text
        (folder / "rows.jsonl").write_text(text)
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / "rows.jsonl").write_text(f"{text}{_end()}\n")
        self.expected = expected.read_bytes() if known else self._batch(expected)

    def question(self) -> list[str]:
        return [
            "--domain",
            f"{self.folder}/items.txt",
            "--mechanism",
            "joint",
            "--k",
            "5",
            "--epsilon",
            "1",
            "--release-key",
            f"file:{self.folder}/key",
            "--release-id",
            "flink",
            "--overwrite",
            "--window",
            "1h",
            "--from",
            START.isoformat(),
            "--to",
            (START + timedelta(hours=WINDOWS)).isoformat(),
        ]

    def batch_words(self, output: Path, *more: str) -> list[str]:
        """The arguments of `private-topk` for all rows at once."""
        place = ["--input", f"{self.folder}/rows.jsonl", "--output", str(output)]
        return ["run", "--quiet", *place, *self.question(), *more]

    def stream_words(self, output: Path, *more: str, source: str = "") -> list[str]:
        """The same, reading a topic, or the folder with a file of all rows."""
        place = ["--input", source or f"{self.folder}/in/*.jsonl", "--clock", "event", "--output", str(output)]
        return ["stream", *place, "--output-format", "jsonl", *self.question(), *more]

    def _batch(self, output: Path) -> bytes:
        command = [sys.executable, "-m", "private_topk", *self.batch_words(output)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, start_new_session=True)
        return output.read_bytes()

    def send(self, address: str, topic: str, rows: range, seconds: float = 0) -> None:
        """Send some of the rows to a topic, evenly over some seconds; after the last one, the end in each partition."""
        settings = {"bootstrap.servers": address, "linger.ms": 20, "message.timeout.ms": 120_000}
        # In order also while a broker is away: a row that overtook another would be late for its window.
        producer = Producer({**settings, "enable.idempotence": True})
        began = time.monotonic()
        for sent, number in enumerate(rows):
            producer.produce(topic, self.rows[number], partition=self.users[number] % PARTITIONS)
            if sent % 50 == 0:
                producer.poll(0)
                time.sleep(max(0.0, began + seconds * sent / len(rows) - time.monotonic()))
        producer.flush(120)
        for partition in range(PARTITIONS if rows.stop == len(self.rows) else 0):
            producer.produce(topic, _end(), partition=partition)
        producer.flush(120)


def _row(user: str, item: str, at: datetime) -> str:
    return json.dumps({"user": user, "item": item, "time": at.isoformat()})


def _end() -> str:
    return _row("nobody", "item 0", START + timedelta(hours=WINDOWS + 2))


_COPIES = multiprocessing.get_context("forkserver")
_COPIES.set_forkserver_preload(["benchmarks.apart", "private_topk.pipelines.cli.publish"])


def start(words: list[str], log: Path, unfinished_bundles: bool = False) -> ForkServerProcess:
    """`private-topk` with some arguments in a process of its own, a copy of one that has everything loaded.

    SIGUSR1 makes it write to its log where its threads are.

    Args:
        unfinished_bundles: do what the command refuses: let Flink lose what a bundle puts out during a checkpoint.
    """
    process = _COPIES.Process(target=_run, args=(words, str(log), unfinished_bundles))
    process.start()
    return process


def _run(words: list[str], log: str, unfinished_bundles: bool) -> None:
    from private_topk.pipelines.cli import main
    from private_topk.pipelines.cli.output import exit_process
    from private_topk.runners.flink import JOB_OPTIONS

    if unfinished_bundles:
        JOB_OPTIONS["finish_bundle_before_checkpointing"] = False  # type: ignore[index]  # nobody else may
    os.setsid()
    for stream in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    faulthandler.register(signal.SIGUSR1)
    exit_process(main(words))


def end(process: ForkServerProcess) -> None:
    """End a command and its children if it has not ended by itself."""
    if process.is_alive():
        try:
            os.killpg(process.pid or 0, signal.SIGKILL)  # its own session, begun in _run
        except ProcessLookupError:
            process.kill()
    process.join()


@contextmanager
def served(cluster: Cluster, folder: Path) -> Iterator[str]:
    """One job server for all jobs of a cluster; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [
        "--flink-master",
        f"http://{cluster.address}",
        "--artifacts-dir",
        f"{folder}/artifacts",
        "--job-port",
        str(port),
        "--artifact-port",
        "0",
        "--expansion-port",
        "0",
    ]
    settings = folder / "job-server"
    settings.mkdir()
    (settings / "config.yaml").write_text('rest.retry.max-attempts: "200"\n')  # as the command gives to its own
    with open(folder / "job-server.out", "wb") as output:
        command = ["java", "-Xmx512m", "-jar", str(job_server()), *words]
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "FLINK_CONF_DIR": str(settings)},
        )
    try:
        await_(lambda: reachable(f"localhost:{port}", 1), 300, "the job server does not start")
        yield f"localhost:{port}"
    finally:
        process.kill()
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


@contextmanager
def looked_at(*all_versions: Versions) -> Iterator[Versions]:
    """Look at them five times a second meanwhile; gives the first."""
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            for versions in all_versions:
                versions.look()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield all_versions[0]
    finally:
        done.set()
        thread.join()
