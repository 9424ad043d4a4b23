"""A steady load on the streaming report: rows a second, lag of publication, memory.

    python -m benchmarks.streaming --minutes 15 --rate 20000
    python -m benchmarks.streaming --minutes 30 --cluster   # on a standalone Flink cluster of two task managers

A Kafka broker on loopback, a producer that sends so many rows a second with the present as their event time, and
`private-topk stream` on Prism with windows of a minute. Lag: from the close of a window (its end and the slack) until
its file is there. Memory: of the job's processes and of Prism or the cluster, every ten seconds; with --cluster also
the size of the last checkpoint, which rises and falls with the rows of the windows that are open.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.processes import Meter, end_well_by_signal
from benchmarks.servers.flink import Cluster
from benchmarks.servers.kafka import Broker
from private_topk.runners.flink_jobs import JobManager

USERS, ITEMS, PARTITIONS, WINDOW, SLACK = 50_000, 2_000, 4, 60, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=15)
    parser.add_argument("--rate", type=int, default=20_000, help="rows a second")
    parser.add_argument("--port", type=int, default=29092)
    parser.add_argument("--runner", default="prism")
    parser.add_argument("--cluster", action="store_true", help="start a standalone Flink cluster and run on it")
    arguments, beam_arguments = parser.parse_known_args()
    end_well_by_signal()
    with tempfile.TemporaryDirectory() as name, ExitStack() as servers:
        broker = Broker(Path(name) / "kafka", arguments.port)
        servers.callback(broker.stop)
        broker.start()
        if arguments.cluster:
            arguments.runner = "flink"
            arguments.cluster = Cluster(Path(name) / "cluster", arguments.port + 10)
            servers.callback(arguments.cluster.stop)
            arguments.cluster.start(2)
            arguments.cluster.start_worker_pool(arguments.port + 12)
            beam_arguments += arguments.cluster.words()
        run(Path(name), broker.address, arguments, beam_arguments)


def prepare(folder: Path, address: str, runner: str, start: int, end: int) -> list[str]:
    """Make the topic and the domain; the command that reads them."""
    admin = AdminClient({"bootstrap.servers": address})
    settings = {"retention.bytes": "1000000000", "message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic("load", PARTITIONS, 1, config=settings)])["load"].result(30)
    (folder / "items.txt").write_text("".join(f"item {n}\n" for n in range(ITEMS)))
    (folder / "key").write_text("a key of the benchmarks, which is no secret\n")
    place = [f"--input=kafka://{address}/load", f"--domain={folder}/items.txt", f"--output={folder}/rankings"]
    asked = f"--mechanism joint --k 10 --epsilon 1 --window {WINDOW}s --release-id load --runner {runner}".split()
    asked += [f"--from={_iso(start)}", f"--to={_iso(end)}", f"--release-key=file:{folder}/key"]
    return [sys.executable, "-m", "private_topk", "stream", *place, *asked]


def run(folder: Path, address: str, arguments: argparse.Namespace, beam_arguments: list[str]) -> None:
    start = (int(time.time()) // WINDOW + 1) * WINDOW
    end = start + 60 * arguments.minutes
    command = prepare(folder, address, arguments.runner, start, end)
    job = subprocess.Popen([*command, "--allowed-lateness", f"{SLACK}s", *beam_arguments], start_new_session=True)
    sent: list[int] = []
    sender = threading.Thread(target=send, args=(address, arguments.rate, end, sent), daemon=True)
    sender.start()
    memory, state = watch(job, end + SLACK + 120, arguments.cluster or None)
    print(f"{arguments.runner}, {arguments.minutes} min, {USERS:,} users, {ITEMS:,} items, {PARTITIONS} partitions")
    print(f"sent:   {sum(sent):,} rows, {sum(sent) / max(len(sent), 1):,.0f} a second")
    report_lag(folder / "rankings", start, end)
    print("memory, MiB, by minute: " + " ".join(f"{max(part):.0f}" for part in by_minute(memory) if part))
    if state:
        sizes = " ".join(f"{min(part):.1f}-{max(part):.1f}" for part in by_minute(state) if part)
        print(f"checkpoints, MiB, smallest and largest by minute: {sizes}")
    print(f"exit status of the job: {job.returncode}")


def send(address: str, rate: int, end: int, sent: list[int]) -> None:
    """A batch every second, until the end. What could not be sent in its second is sent late, and shows as lag."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "compression.type": "lz4",
        }
    )
    while (now := time.time()) < end:
        send_second(producer, now, rate, len(sent))
        sent.append(rate)
        time.sleep(max(0.0, now + 1 - time.time()))
    producer.flush(60)


def send_second(producer: Producer, at: float, rate: int, seed: int) -> None:
    state = np.random.Generator(np.random.PCG64(seed))
    users, items = state.integers(0, USERS, rate), np.minimum(state.zipf(1.3, rate), ITEMS) - 1
    stamp = f'", "time": {at:.3f}}}'
    for user, item in zip(users.tolist(), items.tolist(), strict=True):
        producer.produce("load", f'{{"user": "u{user}", "item": "item {item}{stamp}', partition=user % PARTITIONS)
    producer.poll(0)


Series = list[tuple[float, float]]
"""(seconds, MiB)"""


def watch(job: subprocess.Popen, deadline: float, cluster: Cluster | None) -> tuple[Series, Series]:
    """Memory and the last checkpoint's size, until the job ends by itself or is ended at the deadline."""
    memory, state, began = [], [], time.time()
    servers = [process.pid for process in cluster.processes.values()] if cluster else []
    meter = Meter(lambda: [job.pid, *servers])
    rest = JobManager(cluster.address) if cluster else None
    try:
        while job.poll() is None and time.time() < deadline:
            at = time.time() - began
            memory.append((at, meter.memory()))
            for running in rest.jobs() if rest else []:
                assert rest is not None
                latest = ((rest.get(f"jobs/{running['jid']}/checkpoints") or {}).get("latest") or {}).get("completed")
                if latest:
                    state.append((at, latest["state_size"] / 2**20))
            time.sleep(10)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)  # its own session, started above
        job.wait()
    return memory, state


def report_lag(rankings: Path, start: int, end: int) -> None:
    lags = []
    for path in sorted(rankings.glob("*.avro")):
        facts = json.loads(path.with_suffix("").with_suffix(".manifest.json").read_text())
        closed = datetime.fromisoformat(facts["windows"][0]["end"]).timestamp() + SLACK
        lags.append(path.stat().st_mtime - closed)
    print(f"windows: {len(lags)} of {(end - start) // WINDOW} published")
    if lags:
        print(
            f"lag, s: median {statistics.median(lags):.1f}, most {max(lags):.1f}, by window: "
            + " ".join(f"{lag:.1f}" for lag in lags)
        )


def by_minute(memory: Series) -> list[list[float]]:
    last = int(memory[-1][0] // 60) if memory else 0
    return [[size for at, size in memory if at // 60 == minute] for minute in range(last + 1)]


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


if __name__ == "__main__":
    main()
